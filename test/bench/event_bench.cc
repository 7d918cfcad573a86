// What an event costs the sync thread at a Service with few and with many endpoints: planning, the
// difference, the mirror and what follows, on fakes. Host only, no kernel.

#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <spdlog/logger.h>

#include "proxier/sync/reconciler.h"
#include "test/bench/allocations.h"
#include "test/bench/stopwatch.h"
#include "test/bench/workload.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"

namespace ipvsproxier::bench {
namespace {

constexpr int kPerSlice = 100;  // as the controller makes them
constexpr int kEvents = 501;
constexpr std::uint32_t kNewPods = 0x0b000000;  // 11.0.0.0

struct World {
  test::FakeIpvsTable ipvs;
  test::FakeLinkTable links;
  test::FakeSetTable sets;
  test::FakeRuleTable rules;
  test::FakeConntrackTable conntrack;
  spdlog::logger logger{"bench"};
  std::unique_ptr<sync::Reconciler> reconciler;
  sync::TimePoint now{std::chrono::hours(1)};

  World() {
    logger.set_level(spdlog::level::warn);
    for (auto id : ipset::kSetIds) rules.sets.insert(ipset::set_name(id, netlink::Family::ipv4));
    sync::ReconcilerSettings settings;
    settings.node_name = kNode;
    settings.options = planner_options();
    settings.sync_period = std::chrono::hours(1'000);
    settings.drain.first_look = std::chrono::hours(1'000);  // what drains only gets more
    reconciler = std::make_unique<sync::Reconciler>(
        sync::Kernel{ipvs, links, sets, rules, conntrack}, settings, logger);
  }

  void see(model::Changes changes) {
    reconciler->take({.changes = std::move(changes), .links = {}});
    reconciler->run(now);
  }
};

std::vector<api::EndpointSlice> slices_of(const api::Service& service, int endpoints) {
  std::vector<api::EndpointSlice> slices;
  const auto all = endpoints_of(slice_of({.services = 1, .endpoints = endpoints}, 0));
  for (int first = 0; first < endpoints; first += kPerSlice) {
    auto slice = slice_of({.services = 1, .endpoints = 1}, 0);
    slice.service = service.name.name;
    slice.name.name = fmt::format("{}-{}", slice.service, slices.size());
    const auto last = std::min(first + kPerSlice, endpoints);
    slice.endpoints = std::vector(all.begin() + first, all.begin() + last);
    slices.push_back(std::move(slice));
  }
  return slices;
}

// One endpoint after another is replaced, so that those before it drain; `local`: on this node.
void run(int endpoints, bool local) {
  World world;
  auto lists = first_lists({.services = 1'000, .endpoints = 10});
  const auto service = service_of({.services = 2'000}, 1'001);
  auto slices = slices_of(service, endpoints);
  lists.put(service);
  for (const auto& slice : slices) lists.put(slice);
  world.see(std::move(lists));

  std::uint32_t next = kNewPods;
  int number = 0;
  std::vector<double> counts;
  model::Changes changes;
  const auto prepare = [&] {
    auto& slice = slices[static_cast<std::size_t>(number) % slices.size()];
    auto list = endpoints_of(slice);
    auto& endpoint = list[static_cast<std::size_t>(number / 10) % list.size()];
    endpoint.address = netlink::IpAddress::v4(next++);
    endpoint.node_name = local ? kNode : "node-1";
    slice.endpoints = list;
    changes = {};
    changes.put(slice);
    ++number;
  };
  std::vector<double> times;
  for (int i = 0; i < kEvents; ++i) {
    prepare();
    const auto before = allocations();
    const auto start = processor_ms();
    world.see(std::move(changes));
    times.push_back(processor_ms() - start);
    counts.push_back(static_cast<double>(allocations() - before));
  }
  const auto middle = [](std::vector<double> all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  };
  std::printf("%d %s endpoints, one replaced: %.1f us, %.0f allocations\n", endpoints,
              local ? "local" : "remote", middle(times) * 1000, middle(counts));
}

}  // namespace
}  // namespace ipvsproxier::bench

int main(int argc, char**) {
  const bool profile = argc > 1;
  for (const int endpoints : {10, 100, 1'000})
    for (const bool local : {false, true})
      if (!profile || endpoints == 1'000) ipvsproxier::bench::run(endpoints, local);
  return 0;
}
