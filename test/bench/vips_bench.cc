#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "proxier/plan/bindings.h"
#include "test/bench/quadratic_bench.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {

namespace {

constexpr std::uint32_t kStep = 1000;
constexpr std::uint32_t kSteps = 50;

netlink::IpAddress vip_number(netlink::Family family, std::uint32_t number) {
  if (family == netlink::Family::ipv4) return netlink::IpAddress::v4(0x0a600000U + number);
  return netlink::IpAddress::parse(fmt::format("fd00:96::{:x}:{:x}", number >> 16, number & 0xffff))
      .value();
}

// Binds 50,000, a thousand at a time; what each of a thousand cost, in microseconds.
std::vector<double> bind_all(KernelWorld& world, netlink::Family family, bool spread) {
  const plan::Bindings none;
  plan::Rooms rooms(none, spread);
  std::vector<double> costs;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const double start = now_ms();
    std::map<plan::Place, std::vector<netlink::AddressOp>> ops;
    for (std::uint32_t i = 0; i < kStep; ++i)
      ops[rooms.next()].push_back({true, vip_number(family, step * kStep + i)});
    for (const auto& [place, some] : ops) {
      test::require(world.links->ensure_dummy(plan::dummy_link(place)));
      for (const auto& status : world.links->apply(plan::dummy_link(place), some))
        if (!status) throw std::runtime_error(netlink::to_string(status.error()));
    }
    costs.push_back((now_ms() - start) * 1000 / kStep);
  }
  return costs;
}

void remove_links(KernelWorld& world) {
  for (const auto& link : test::require(world.links->list_links()))
    if (plan::dummy_number(link)) test::require(world.links->remove_dummy(link));
}

}  // namespace

void measure_vips(KernelWorld& world, const Size&) {
  for (const auto family : netlink::kFamilies)
    for (const bool spread : {true, false}) {
      const auto costs = bind_all(world, family, spread);
      const auto name = fmt::format("{}, {}", to_string(family), spread ? "spread" : "one link");
      for (const std::size_t thousands : {1U, 4U, 10U, 50U})
        print_figure(fmt::format("{}: each of the {}th thousand", name, thousands),
                     costs[thousands - 1], "us");
      // Noise in one thousand says nothing.
      auto further = std::vector(costs.begin() + 5, costs.end());
      std::nth_element(further.begin(), further.begin() + 22, further.end());
      print_figure(name + ": each beyond 5,000, median", further[22], "us");
      const double start = now_ms();
      remove_links(world);
      print_figure(name + ": links removed", now_ms() - start, "ms");
    }
}

}  // namespace ipvsproxier::bench
