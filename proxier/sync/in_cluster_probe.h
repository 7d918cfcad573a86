#pragma once

// InClusterProbe: for which protocols iptables of this kernel cannot send packets of in-cluster
// clients on to a cluster IP (Differences::in_cluster_clients): it lacks an extension, or another
// program has a set of a name that this needs. Planned all the same, such a rule would be refused
// with its whole table. What was absent is looked for again every so many readings of the whole
// kernel, as each look has the kernel run modprobe; where the kernel could not be asked, all count
// as absent, and the next reading asks again. Sync thread only.

#include <map>
#include <optional>
#include <set>

#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

class InClusterProbe {
 public:
  // After a reading of the whole kernel. Returns the Services to plan again.
  std::set<api::NamespacedName> look(const model::ClusterState& cluster,
                                     const plan::ActualState& kernel, ipset::RuleTable& rules,
                                     plan::Planner& planner);

 private:
  using Protocols = std::set<netlink::Protocol>;

  static constexpr unsigned kReadingsBetween = 10;

  std::map<netlink::Family, std::optional<Protocols>> absent_;  // nullopt: unknown
  unsigned readings_ = 0;                                       // since absent ones were looked for
};

}  // namespace ipvsproxier::sync
