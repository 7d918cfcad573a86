#include "proxier/sync/publisher.h"

#include <utility>

namespace ipvsproxier::sync {

void Publisher::started() {
  const auto now = status_.now().wall;
  for (const auto family : families_) {
    status_.sync_loop_started(family);
    metrics_.sync_queued(family, now);
  }
}

void Publisher::began() {
  status_.sync_heartbeat().beat();
  for (const auto family : families_) status_.sync_began(family);
  metrics_.changes_taken();
}

void Publisher::ended(SyncReport report, std::chrono::steady_clock::duration took) {
  using serve::NetlinkKind;
  const auto now = status_.now().wall;
  const auto& written = report.written;
  const auto& failed = report.failed;
  metrics_.netlink_sent(NetlinkKind::ipvs, written.ipvs + failed.ipvs, failed.ipvs);
  metrics_.netlink_sent(NetlinkKind::link, written.addresses + written.links + failed.addresses,
                        failed.addresses);
  metrics_.netlink_sent(NetlinkKind::set,
                        written.elements + written.sets + failed.elements + failed.sets,
                        failed.elements + failed.sets);
  metrics_.netlink_sent(NetlinkKind::rule, written.rule_tables + failed.rule_tables,
                        failed.rule_tables);
  metrics_.netlink_sent(NetlinkKind::conntrack, report.flows, 0);
  metrics_.repaired(report.repairs);
  metrics_.servers_draining(report.draining);
  if (report.whole && report.settled) metrics_.kernel_agreed(now);
  for (const auto family : families_) {
    metrics_.sync_took(family, took);
    if (report.settled) {
      status_.sync_succeeded(family);
      metrics_.sync_succeeded(family, now);
    } else {
      status_.sync_failed(family);
    }
  }
  if (!report.health.empty()) status_.publish(std::move(report.health));
  status_.sync_heartbeat().rest();
}

}  // namespace ipvsproxier::sync
