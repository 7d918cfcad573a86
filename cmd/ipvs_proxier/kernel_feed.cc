#include "cmd/ipvs_proxier/kernel_feed.h"

#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/localhost_rules.h"
#include "netlink/ip_address.h"
#include "proxier/plan/bindings.h"
#include "proxier/sync/sync_input.h"

namespace ipvsproxier::cmd {

KernelFeed::KernelFeed(loop::MainLoop& loop, SyncMail& mail, const KernelTables& tables,
                       bool local_routes, spdlog::logger& logger)
    : loop_(loop), mail_(mail) {
  watch_links(local_routes, logger);
  if (tables.nftables) watch_filter(tables, logger);
}

KernelFeed::~KernelFeed() {
  if (links_) loop_.unwatch(links_->fd());
  if (filter_) loop_.unwatch(filter_->fd());
}

void KernelFeed::watch_links(bool local_routes, spdlog::logger& logger) {
  auto monitor = netlink::LinkMonitor::open(std::string(plan::kDummyLinks), local_routes,
                                            std::string(ipset::kLoopLinks));
  if (!monitor) {
    logger.warn("{}: changes of addresses are noticed only every ipvs.syncPeriod",
                netlink::to_string(monitor.error()));
    return;
  }
  links_ = *std::move(monitor);
  loop_.watch(links_->fd(), [this] {
    sync::SyncInput input;
    input.links = links_->take();
    if (!input.empty()) mail_.put(std::move(input));
  });
}

void KernelFeed::watch_filter(const KernelTables& tables, spdlog::logger& logger) {
  std::vector<netlink::NftTableKey> ours;
  if (tables.chosen.filter == ipset::PacketFilter::nftables)
    for (const auto family : netlink::kFamilies) ours.push_back(ipset::nft_table_of(family));
  auto monitor = netlink::NftMonitor::open(std::move(ours), tables.nftables->port());
  if (!monitor) {
    logger.warn("{}: changes of nf_tables are noticed only every ipvs.syncPeriod",
                netlink::to_string(monitor.error()));
    return;
  }
  filter_ = *std::move(monitor);
  const bool holds_ours = tables.chosen.filter == ipset::PacketFilter::nftables;
  loop_.watch(filter_->fd(), [this, holds_ours] {
    const auto events = filter_->take();
    sync::SyncInput input;
    input.firewall_changed = events.base_chains || events.overrun;
    input.flow_rules_changed = events.flow_rules || events.overrun;
    // Legacy tables tell nothing. Who makes a firewall anew in nf_tables may have flushed them,
    // too, as firewalld does.
    input.filter_changed = holds_ours ? !events.empty() : input.firewall_changed;
    if (!input.empty()) mail_.put(std::move(input));
  });
}

}  // namespace ipvsproxier::cmd
