#include "proxier/sync/publisher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::sync {

void Publisher::started() {
  const auto now = status_.now().wall;
  for (const auto family : families_) {
    status_.sync_loop_started(family);
    metrics_.sync_queued(family, now);
  }
}

void Publisher::began(bool taken) {
  status_.sync_heartbeat().beat();
  if (!taken) return;
  for (const auto family : families_) status_.sync_began(family);
  metrics_.changes_taken();
}

// Rules are not written over netlink: each written table counts as one request.
void Publisher::count_requests(const SyncReport& report) {
  using serve::NetlinkKind;
  const auto& failed = report.failed;
  const auto& requests = report.requests;
  std::size_t purges_failed = 0;
  for (const auto& [family, purge] : report.purges) purges_failed += purge.failed;
  metrics_.netlink_sent(NetlinkKind::ipvs, requests.ipvs, failed.ipvs);
  metrics_.netlink_sent(NetlinkKind::link, requests.links, failed.addresses + failed.links);
  metrics_.netlink_sent(NetlinkKind::set, requests.sets, failed.elements + failed.sets);
  metrics_.netlink_sent(NetlinkKind::rule, report.written.rule_tables + failed.rule_tables,
                        failed.rule_tables);
  metrics_.netlink_sent(NetlinkKind::conntrack, requests.conntrack, purges_failed);
}

void Publisher::tell_families(const SyncReport& report, serve::Metrics::Time now) {
  for (const auto family : report.rules_failed) metrics_.rules_failed(family);
  for (const auto& [family, purge] : report.purges)
    metrics_.flows_purged(family, purge.took, purge.removed);
  for (const auto& [family, lack] : report.lack)
    metrics_.no_local_endpoints(family, lack.internal, lack.external);
  using serve::NetlinkKind;
  for (const auto& [family, refused] : report.refusals) {
    metrics_.things_refused(family, NetlinkKind::ipvs, refused.virtual_services);
    metrics_.things_refused(family, NetlinkKind::link, refused.addresses);
    metrics_.things_refused(family, NetlinkKind::set, refused.elements);
    metrics_.services_meet_foreign(family, refused.by_foreign);
  }
  for (const auto& trigger : report.programmed)
    if (trigger.time > started_)  // time of the cluster's clock, which may be ahead of ours
      metrics_.network_programmed(trigger.family, std::max(now, trigger.time) - trigger.time);
}

void Publisher::tell_aside(netlink::Family family, bool aside) {
  status_.count_family(family, !aside);
  const auto name = netlink::to_string(family);
  std::vector<std::string> lines;
  if (aside)
    lines.push_back(fmt::format(
        "{}: this kernel refuses all of it (the log says why), so no Service is served by it; it "
        "does not count for /healthz, because the Node has no {} address",
        name, name));
  status_.set_wrong(fmt::format("family {}", name), std::move(lines));
}

void Publisher::ended(SyncReport report, std::chrono::steady_clock::duration took) {
  const auto now = status_.now().wall;
  count_requests(report);
  if (report.reading) {
    if (!report.figures) reading_ += took;
    status_.sync_heartbeat().rest();
    return;
  }
  if (report.whole) took += std::exchange(reading_, {});
  tell_families(report, now);
  metrics_.repaired(report.repairs);
  metrics_.servers_draining(report.draining);
  metrics_.kernel_removal_held(report.doubted);
  if (report.lacking) metrics_.services_lacking(*report.lacking);
  metrics_.flows_unreadable(report.flows_unreadable);
  metrics_.firewall_drops(report.firewall_drops);
  if (report.whole && report.settled) metrics_.kernel_agreed(now);
  for (const auto family : families_) {
    if (report.well.contains(family) || report.ill.contains(family))
      tell_aside(family, report.aside.contains(family));
    metrics_.sync_took(family, took);
    if (report.well.contains(family)) {
      status_.sync_succeeded(family);
      metrics_.sync_succeeded(family, now);
    } else if (report.failures > 0 || report.ill.contains(family) || !report.unfinished) {
      status_.sync_failed(family);
    }
  }
  if (!report.health.empty()) status_.publish(std::move(report.health));
  // The next run begins at once.
  if (!report.unfinished) status_.sync_heartbeat().rest();
}

}  // namespace ipvsproxier::sync
