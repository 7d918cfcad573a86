#include "proxier/sync/scheduler_probe.h"

#include <cerrno>
#include <utility>

namespace ipvsproxier::sync {

// Without an answer the scheduler counts as present, and the kernel refuses it if it is not. An
// IPVS without IPv6 cannot tell: the node's scheduler serves for certain.
void SchedulerProbe::ask(const std::string& scheduler, netlink::IpvsTable& ipvs) {
  const auto has = ipvs.has_scheduler(scheduler);
  if (!has) {
    if (has.error().sys_errno == EAFNOSUPPORT) absent_.insert(scheduler);
    return;
  }
  (*has ? present_ : absent_).insert(scheduler);
  (*has ? absent_ : present_).erase(scheduler);
}

void SchedulerProbe::look_for(const model::ParsedSettings& asked, netlink::IpvsTable& ipvs) {
  if (!heeds_annotations_) return;
  const auto& scheduler = asked.settings.scheduler;
  if (!scheduler.empty() && !present_.contains(scheduler) && !absent_.contains(scheduler) &&
      asked_.insert(scheduler).second)
    ask(scheduler, ipvs);
}

std::set<api::NamespacedName> SchedulerProbe::look(const std::set<api::NamespacedName>& services,
                                                   const model::ClusterState& cluster,
                                                   netlink::IpvsTable& ipvs,
                                                   plan::Planner& planner) {
  asked_.clear();
  for (const auto& name : services) look_for(cluster.settings_of(name), ipvs);
  return planner.set_absent_schedulers(absent_, cluster);
}

void SchedulerProbe::look_for_all(const model::ClusterState& cluster, netlink::IpvsTable& ipvs,
                                  plan::Planner& planner) {
  asked_.clear();
  for (const auto& [name, asked] : cluster.settings()) look_for(asked, ipvs);
  planner.set_absent_schedulers(absent_, cluster);
}

std::set<api::NamespacedName> SchedulerProbe::look_again(const model::ClusterState& cluster,
                                                         netlink::IpvsTable& ipvs,
                                                         plan::Planner& planner) {
  const bool again = std::exchange(doubted_, false);
  if (again) present_.clear();
  if (again || ++readings_ >= kReadingsBetween) {
    readings_ = 0;
    for (const auto& scheduler : Names(absent_)) ask(scheduler, ipvs);
  }
  asked_.clear();
  if (again)
    for (const auto& [name, asked] : cluster.settings()) look_for(asked, ipvs);
  return planner.set_absent_schedulers(absent_, cluster);
}

}  // namespace ipvsproxier::sync
