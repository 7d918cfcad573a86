#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "netlink/ipvs/ipvs_types.h"
#include "test/bench/quadratic_bench.h"

namespace ipvsproxier::bench {

namespace {

using netlink::IpAddress;
using netlink::IpvsOp;

const netlink::VirtualServiceKey kService{IpAddress::v4(0x0a600001U), netlink::Protocol::tcp, 80};

void apply_all(KernelWorld& world, const std::vector<IpvsOp>& ops) {
  for (const auto& status : world.ipvs->apply(ops))
    if (!status) throw std::runtime_error(netlink::to_string(status.error()));
}

// A virtual service with so many real servers, made with one scheduler and then given another.
double fill_ms(KernelWorld& world, const std::string& first, const std::string& then,
               std::uint32_t servers) {
  std::vector<IpvsOp> ops{netlink::AddService{{.key = kService, .scheduler = first}}};
  for (std::uint32_t i = 0; i < servers; ++i)
    ops.emplace_back(netlink::AddServer{kService, {.key = {IpAddress::v4(0x0af40001U + i), 8080}}});
  if (then != first) ops.emplace_back(netlink::EditService{{.key = kService, .scheduler = then}});
  const double start = now_ms();
  apply_all(world, ops);
  const double took = now_ms() - start;
  apply_all(world, {netlink::DeleteService{kService}});
  return took;
}

}  // namespace

void measure_schedulers(KernelWorld& world, const Size&) {
  // The modules are loaded, and memory is there.
  for (const auto* scheduler : {"rr", "sh", "mh"}) fill_ms(world, scheduler, scheduler, 10);
  const struct {
    const char* first;
    const char* then;
  } kWays[] = {{"rr", "rr"}, {"sh", "sh"},   {"none", "sh"}, {"rr", "sh"},
               {"mh", "mh"}, {"none", "mh"}, {"rr", "mh"}};
  for (const std::uint32_t servers : {2U, 10U, 100U, 1000U})
    for (const auto& [first, then] : kWays) {
      std::vector<double> times;
      const int runs = servers < 1000 ? 9 : 3;
      for (int i = 0; i < runs; ++i) times.push_back(fill_ms(world, first, then, servers));
      std::sort(times.begin(), times.end());
      print_figure(fmt::format("{} real servers, {} then {}", servers, first, then),
                   times[times.size() / 2], "ms");
    }
}

}  // namespace ipvsproxier::bench
