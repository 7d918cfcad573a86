#pragma once

// SchedulerProbe: which of the schedulers that Services ask for this kernel lacks. Each is looked
// for once when a Service first names it; those that were absent are looked for again every so many
// readings of the whole kernel, as each look has the kernel run modprobe. Sync thread only.

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
  // The kernel has refused a virtual service for its scheduler: the next look_again() looks for
  // all.
  void doubt() { doubted_ = true; }
  // After a reading of the whole kernel: looks again for those that were absent, or in doubt.
  std::set<api::NamespacedName> look_again(const model::ClusterState& cluster,
                                           netlink::IpvsTable& ipvs, plan::Planner& planner);

 private:
  using Names = std::set<std::string, std::less<>>;

  void look_for(const model::ParsedSettings& asked, netlink::IpvsTable& ipvs);
  void ask(const std::string& scheduler, netlink::IpvsTable& ipvs);

  static constexpr unsigned kReadingsBetween = 10;

  bool heeds_annotations_;
  bool doubted_ = false;
  unsigned readings_ = 0;  // since absent ones were looked for
  Names present_;
  Names absent_;
  Names asked_;  // in this look
};

}  // namespace ipvsproxier::sync
