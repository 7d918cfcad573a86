#include "test/bench/kernel_world.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <stdexcept>

#include <fmt/format.h>

#include "netlink/kernel_module.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {

KernelWorld::KernelWorld()
    : ipvs(test::require(netlink::KernelIpvsTable::open())),
      links(test::require(netlink::KernelLinkTable::open())),
      sets(test::require(ipset::LibipsetTable::open())),
      rules(
          {.load_module =
               [](const std::string& module) { static_cast<void>(netlink::load_module(module)); }}),
      conntrack(test::require(netlink::KernelConntrackTable::open())) {
  netns_.netns().ip("link add eth0 type dummy\naddr add 10.0.0.1/24 dev eth0\nlink set eth0 up\n");
}

std::unique_ptr<sync::Reconciler> KernelWorld::reconciler() {
  return reconciler(*ipvs, std::chrono::hours(1));
}

std::unique_ptr<sync::Reconciler> KernelWorld::reconciler(netlink::IpvsTable& table,
                                                          std::chrono::milliseconds first_look) {
  sync::ReconcilerSettings settings;
  settings.node_name = kNode;
  settings.options = planner_options();
  settings.sync_period = std::chrono::hours(1);
  settings.drain.first_look = first_look;
  const sync::Kernel kernel{table, *links, *sets, rules, *conntrack};
  return std::make_unique<sync::Reconciler>(kernel, std::move(settings), logger_);
}

Sent KernelWorld::sent() const {
  const auto& ipvs_counters = ipvs->counters();
  const auto& link_counters = links->counters();
  return {.ipvs_writes = ipvs_counters.write_requests,
          .ipvs_dumps = ipvs_counters.dump_requests + ipvs_counters.query_requests,
          .link_writes = link_counters.write_requests,
          .link_dumps = link_counters.dump_requests + link_counters.query_requests,
          .set_dumps = sets->requests() - sets->writes(),
          .rule_accesses = rules.accesses(),
          .datagrams = ipvs_counters.datagrams + link_counters.datagrams,
          .writes = ipvs_counters.write_requests + link_counters.write_requests + sets->writes()};
}

test::NetlinkTap& KernelWorld::tap() {
  if (!tap_) tap_.emplace(netns_.netns());
  return *tap_;
}

std::size_t KernelWorld::elements() {
  std::size_t count = 0;
  for (const auto id : ipset::kSetIds)
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
