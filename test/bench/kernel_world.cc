#include "test/bench/kernel_world.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <stdexcept>

#include <fmt/format.h>

#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/rules/rule_iptc.h"
#include "netlink/kernel_module.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {

namespace {

std::unique_ptr<test::Netns> fresh_node() {
  auto netns = std::make_unique<test::Netns>();
  netns->ip("link add eth0 type dummy\naddr add 10.0.0.1/24 dev eth0\nlink set eth0 up\n");
  return netns;
}

std::unique_ptr<ipset::KernelFilterTable> filter_table(ipset::PacketFilter filter) {
  if (filter == ipset::PacketFilter::iptables) return nullptr;
  return test::require(ipset::KernelFilterTable::open());
}

std::unique_ptr<ipset::SetTable> set_table(ipset::FilterTable* nftables) {
  if (nftables != nullptr) return std::make_unique<ipset::NftSetTable>(*nftables);
  return test::require(ipset::LibipsetTable::open());
}

std::unique_ptr<ipset::RuleTable> rule_table(ipset::FilterTable* nftables) {
  if (nftables != nullptr) return std::make_unique<ipset::NftRuleTable>(*nftables);
  return std::make_unique<ipset::IptcRuleTable>(
      ipset::IptcSettings{.load_module = [](const std::string& module) {
        static_cast<void>(netlink::load_module(module));
      }});
}

}  // namespace

KernelWorld::KernelWorld(ipset::PacketFilter filter) : KernelWorld(filter, fresh_node()) {}

KernelWorld::KernelWorld(ipset::PacketFilter filter, std::unique_ptr<test::Netns> fresh)
    : KernelWorld(filter, *fresh) {
  fresh_ = std::move(fresh);
}

KernelWorld::KernelWorld(ipset::PacketFilter filter, const test::Netns& node)
    : node_(node),
      enter_(node),
      options(planner_options(filter)),
      ipvs(test::require(netlink::KernelIpvsTable::open())),
      links(test::require(netlink::KernelLinkTable::open())),
      nftables(filter_table(filter)),
      sets(set_table(nftables.get())),
      rules(rule_table(nftables.get())),
      conntrack(test::require(netlink::KernelConntrackTable::open())),
      ip_sets_(dynamic_cast<ipset::LibipsetTable*>(sets.get())) {}

std::unique_ptr<sync::Reconciler> KernelWorld::reconciler() {
  return reconciler(*ipvs, std::chrono::hours(1));
}

std::unique_ptr<sync::Reconciler> KernelWorld::reconciler(netlink::IpvsTable& table,
                                                          std::chrono::milliseconds first_look) {
  sync::ReconcilerSettings settings;
  settings.node_name = kNode;
  settings.options = options;
  settings.sync_period = std::chrono::hours(1);
  settings.drain.first_look = first_look;
  settings.publish_figures = publish_figures;
  if (publish_figures) settings.service_metrics = model::ServiceMetrics::all;
  const sync::Kernel kernel{table, *links, *sets, rules, *conntrack};
  return std::make_unique<sync::Reconciler>(kernel, std::move(settings), logger_);
}

Sent KernelWorld::sent() const {
  const auto& ipvs_counters = ipvs->counters();
  const auto& link_counters = links->counters();
  const auto nft = nft_counters();
  const auto set_writes = ip_sets_ != nullptr ? ip_sets_->writes() : nft.write_requests;
  return {.ipvs_writes = ipvs_counters.write_requests,
          .ipvs_dumps = ipvs_counters.dump_requests + ipvs_counters.query_requests,
          .link_writes = link_counters.write_requests,
          .link_dumps = link_counters.dump_requests + link_counters.query_requests,
          .set_dumps = sets->requests() - set_writes,
          .rule_accesses = rules.accesses(),
          .datagrams = ipvs_counters.datagrams + link_counters.datagrams + nft.datagrams,
          .transactions = nft.datagrams - nft.query_requests - nft.dump_requests,
          .writes = ipvs_counters.write_requests + link_counters.write_requests + set_writes};
}

netlink::NlCounters KernelWorld::nft_counters() const {
  return nftables ? nftables->counters() : netlink::NlCounters{};
}

test::NetlinkTap& KernelWorld::tap() {
  if (!tap_) tap_.emplace(node_);
  return *tap_;
}

std::size_t KernelWorld::elements() {
  std::size_t count = 0;
  for (const auto id : ipset::sets_of(options.packet_filter))
    if (const auto set = sets->list(ipset::set_name(id, netlink::Family::ipv4)); set && *set)
      count += (*set)->elements.size();
  return count;
}

std::size_t KernelWorld::virtual_servers() {
  return test::require(ipvs->list_services()).size();
}

std::size_t KernelWorld::addresses() {
  const auto all = test::require(links->list_addresses());
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& address) {
    return address.link.starts_with("kube-ipvs") &&
           address.address.family() == netlink::Family::ipv4;
  }));
}

void require_complete(const sync::SyncReport& report) {
  if (!report.complete()) throw std::runtime_error("a sync failed: " + to_string(report));
}

double now_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

void print_figure(const std::string& name, double value, const char* unit) {
  std::printf("%s\t%.3f\t%s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

}  // namespace ipvsproxier::bench
