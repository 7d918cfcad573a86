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

netlink::IpAddress vip_number(netlink::Family family, std::uint32_t number) {
  if (family == netlink::Family::ipv4) return netlink::IpAddress::v4(0x0a600000U + number);
  return netlink::IpAddress::parse(fmt::format("fd00:96::{:x}:{:x}", number >> 16, number & 0xffff))
      .value();
}

void bind(KernelWorld& world, plan::Place place, const std::vector<netlink::AddressOp>& ops) {
  const bool by_routes = place == plan::kLocalTable;
  if (!by_routes) test::require(world.links->ensure_dummy(plan::dummy_link(place)));
  const auto statuses = by_routes ? world.links->apply_local_routes(ops)
                                  : world.links->apply(plan::dummy_link(place), ops);
  for (const auto& status : statuses)
    if (!status) throw std::runtime_error(netlink::to_string(status.error()));
}

// Binds so many, a thousand at a time; what each of a thousand cost, in microseconds. A thousand is
// so many as the size has Services.
std::vector<double> bind_all(KernelWorld& world, netlink::Family family, plan::Places places,
                             const Size& size, std::uint32_t thousands) {
  const auto thousand = static_cast<std::uint32_t>(size.services);
  const plan::Bindings none;
  plan::Rooms rooms(none, places);
  std::vector<double> costs;
  for (std::uint32_t step = 0; step < thousands; ++step) {
    const double start = now_ms();
    std::map<plan::Place, std::vector<netlink::AddressOp>> ops;
    for (std::uint32_t i = 0; i < thousand; ++i)
      ops[rooms.next()].push_back({true, vip_number(family, step * thousand + i)});
    for (const auto& [place, some] : ops) bind(world, place, some);
    costs.push_back((now_ms() - start) * 1000 / thousand);
  }
  return costs;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void unbind_all(KernelWorld& world) {
  for (const auto& link : test::require(world.links->list_links()))
    if (plan::dummy_number(link)) test::require(world.links->remove_dummy(link));
  std::vector<netlink::AddressOp> ops;
  for (const auto& address : test::require(world.links->list_local_routes()))
    ops.push_back({false, address});
  for (const auto& status : world.links->apply_local_routes(ops))
    if (!status) throw std::runtime_error(netlink::to_string(status.error()));
}

// Of 50,000, beside the first thousand alone.
void measure_many(KernelWorld& world, netlink::Family family, const std::string& name,
                  plan::Places places, const Size& size) {
  std::vector<double> alone;
  for (int i = 0; i < 7; ++i) {
    alone.push_back(bind_all(world, family, places, size, 1).front());
    unbind_all(world);
  }
  print_figure(name + ": each of 1,000", median(alone), "us");
  const auto costs = bind_all(world, family, places, size, 50);
  for (const std::size_t thousands : {4U, 10U, 50U})
    print_figure(fmt::format("{}: each of the {}th thousand", name, thousands),
                 costs[thousands - 1], "us");
  // One thousand is much disturbed by others on the machine.
  const double late = median({costs.begin() + 5, costs.end()});
  print_figure(name + ": each of the 6th to 50th thousand, median", late, "us");
  print_figure(name + ": that to each of 1,000", late / median(alone), "x");
  const double begin = now_ms();
  const auto listed = test::require(world.links->list_local_routes()).size();
  print_figure(fmt::format("{}: listing {} local routes of ours", name, listed), now_ms() - begin,
               "ms");
  unbind_all(world);
}

}  // namespace

void measure_vips(KernelWorld& world, const Size& size) {
  for (const auto family : netlink::kFamilies) {
    const auto name = std::string(to_string(family));
    measure_many(world, family, name + ", by routes", plan::Places::local_table, size);
    measure_many(world, family, name + ", spread", plan::Places::all_links, size);
    // 50,000 take minutes.
    const auto on_one = bind_all(world, family, plan::Places::first_link, size, 10);
    for (const std::size_t thousands : {4U, 10U})
      print_figure(fmt::format("{}, one link: each of the {}th thousand", name, thousands),
                   on_one[thousands - 1], "us");
    unbind_all(world);
  }
}

}  // namespace ipvsproxier::bench
