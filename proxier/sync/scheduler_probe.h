#pragma once

// SchedulerProbe: which of the schedulers that Services ask for this kernel lacks. Each is looked
// for once when a Service first names it; those that were absent are looked for again with each
// reading of the whole kernel. Sync thread only.

#include <functional>
#include <set>
#include <string>

#include "proxier/plan/planner.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

class SchedulerProbe {
 public:
  // `heeds_annotations`: Differences::service_annotations; if false, nothing is looked for.
  explicit SchedulerProbe(bool heeds_annotations) : heeds_annotations_(heeds_annotations) {}

  // Looks for the schedulers that these Services name. Returns the Services to plan again.
  std::set<api::NamespacedName> look(const std::set<api::NamespacedName>& services,
                                     const model::ClusterState& cluster, netlink::IpvsTable& ipvs,
                                     plan::Planner& planner);
  // The same for all Services.
  void look_for_all(const model::ClusterState& cluster, netlink::IpvsTable& ipvs,
                    plan::Planner& planner);
  // Looks again for those that were absent.
  std::set<api::NamespacedName> look_again(const model::ClusterState& cluster,
                                           netlink::IpvsTable& ipvs, plan::Planner& planner);

 private:
  using Names = std::set<std::string, std::less<>>;

  void look_for(const api::Service& service, netlink::IpvsTable& ipvs);
  void ask(const std::string& scheduler, netlink::IpvsTable& ipvs);

  bool heeds_annotations_;
  Names present_;
  Names absent_;
};

}  // namespace ipvsproxier::sync
