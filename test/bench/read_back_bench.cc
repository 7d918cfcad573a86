// The reading back of the whole kernel, in parts.

#include <algorithm>
#include <vector>

#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {

namespace {

// How long each kind of part takes to be read, and the largest single listings.
void measure_dumps(KernelWorld& world) {
  double start = now_ms();
  const auto services = test::require(world.ipvs->list_services());
  double all = now_ms() - start;
  print_figure("dump of virtual servers", all, "ms");
  start = now_ms();
  for (const auto& service : services) test::require(world.ipvs->list_servers(service.key));
  const double servers = now_ms() - start;
  print_figure("dumps of real servers", servers, "ms");
  all += servers;
  double longest = 0;
  std::size_t largest = 0;
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::sets_of(world.options.packet_filter)) {
      start = now_ms();
      const auto set = test::require(world.sets->list(ipset::set_name(id, family)));
      const double took = now_ms() - start;
      all += took;
      longest = std::max(longest, took);
      if (set) largest = std::max(largest, set->elements.size());
    }
  print_figure("longest dump of a set", longest, "ms");
  print_figure("elements of the largest set", static_cast<double>(largest), "");
  start = now_ms();
  test::require(world.links->list_addresses());
  const double addresses = now_ms() - start;
  print_figure("dump of addresses", addresses, "ms");
  print_figure("dumps alone", all + addresses, "ms");
}

}  // namespace

// Three readings of the whole kernel, which find it as it should be, beside the dumps alone.
void measure_readback(KernelWorld& world, const Size& size) {
  auto reconciler = synced(world, size);
  auto now = kStart;
  for (int round = 0; round < 3; ++round) {
    measure_dumps(world);
    const auto before = world.sent();
    const double resident = resident_kb();
    double most_resident = resident;
    std::vector<double> parts;
    now += std::chrono::hours(1);
    bool whole = false;
    while (!whole) {
      const double start = now_ms();
      const auto report = reconciler->run(now);
      parts.push_back(now_ms() - start);
      require_complete(report);
      whole = report.whole;
      if (parts.size() % 16 == 0) most_resident = std::max(most_resident, resident_kb());
    }
    double all = 0;
    for (const double part : parts) all += part;
    print_figure("read-back", all, "ms");
    std::sort(parts.begin(), parts.end());
    print_figure("parts", static_cast<double>(parts.size()), "");
    print_figure("longest part", parts.back(), "ms");
    print_figure("second longest part", parts[parts.size() - 2], "ms");
    print_figure("third longest part", parts[parts.size() - 3], "ms");
    print_figure("median part", parts[parts.size() / 2], "ms");
    const auto after = world.sent();
    print_figure("ipvs dumps", static_cast<double>(after.ipvs_dumps - before.ipvs_dumps), "");
    print_figure("link dumps", static_cast<double>(after.link_dumps - before.link_dumps), "");
    print_figure("write requests", static_cast<double>(after.writes - before.writes), "");
    print_figure("more resident meanwhile", (most_resident - resident) / 1024, "MB");
  }
}

}  // namespace ipvsproxier::bench
