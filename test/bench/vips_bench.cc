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

netlink::IpAddress vip_number(netlink::Family family, std::uint32_t number) {
  if (family == netlink::Family::ipv4) return netlink::IpAddress::v4(0x0a600000U + number);
  return netlink::IpAddress::parse(fmt::format("fd00:96::{:x}:{:x}", number >> 16, number & 0xffff))
      .value();
}

// Binds so many, a thousand at a time; what each of a thousand cost, in microseconds.
std::vector<double> bind_all(KernelWorld& world, netlink::Family family, bool spread,
                             std::uint32_t thousands) {
  const plan::Bindings none;
  plan::Rooms rooms(none, spread);
  std::vector<double> costs;
  for (std::uint32_t step = 0; step < thousands; ++step) {
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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void remove_links(KernelWorld& world) {
  for (const auto& link : test::require(world.links->list_links()))
    if (plan::dummy_number(link)) test::require(world.links->remove_dummy(link));
}

}  // namespace

void measure_vips(KernelWorld& world, const Size&) {
  for (const auto family : netlink::kFamilies) {
    const auto name = std::string(to_string(family));
    std::vector<double> alone;
    for (int i = 0; i < 7; ++i) {
      alone.push_back(bind_all(world, family, false, 1).front());
      remove_links(world);
    }
    print_figure(name + ": each of 1,000", median(alone), "us");
    const auto spread = bind_all(world, family, true, 50);
    for (const std::size_t thousands : {4U, 10U, 50U})
      print_figure(fmt::format("{}, spread: each of the {}th thousand", name, thousands),
                   spread[thousands - 1], "us");
    // One thousand is much disturbed by others on the machine.
    print_figure(name + ", spread: each of the 6th to 50th thousand, median",
                 median({spread.begin() + 5, spread.end()}), "us");
    remove_links(world);
    // 50,000 take minutes.
    const auto on_one = bind_all(world, family, false, 10);
    for (const std::size_t thousands : {4U, 10U})
      print_figure(fmt::format("{}, one link: each of the {}th thousand", name, thousands),
                   on_one[thousands - 1], "us");
    remove_links(world);
  }
}

}  // namespace ipvsproxier::bench
