// The kernel side at scale. Runs in the scratch kernel, each measurement in a fresh one: what a
// flush leaves in the kernel makes the next slow.
//
//   kernel_bench MEASUREMENT SIZE [nftables]     prints lines NAME<tab>VALUE<tab>UNIT
//
// With nf_tables the kernel is one of Debian's; without it the packet filter is legacy iptables.

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"
#include "test/bench/prebuilt.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {
namespace {

void measure_floor(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.take_preparation());
  Prebuilt prebuilt(planned.transaction);
  const double start = now_ms();
  prebuilt.send();
  print_figure("time", now_ms() - start, "ms");
  print_figure("messages", static_cast<double>(prebuilt.messages()), "");
  print_figure("datagrams", static_cast<double>(prebuilt.datagrams()), "");
  print_end_state(world);
}

// The same messages by the same path as the daemon's.
void measure_apply(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.take_preparation());
  const auto before = world.sent();
  const double faults = page_faults();
  const double start = now_ms();
  planned.apply(world, planned.transaction);
  print_figure("time", now_ms() - start, "ms");
  print_figure("page faults", page_faults() - faults, "");
  const auto after = world.sent();
  print_figure("ipvs messages", static_cast<double>(after.ipvs_writes - before.ipvs_writes), "");
  print_figure("address messages", static_cast<double>(after.link_writes - before.link_writes), "");
  print_figure("datagrams but for sets", static_cast<double>(after.datagrams - before.datagrams),
               "");
  print_end_state(world);
}

void measure_first(KernelWorld& world, const Size& size) {
  const double empty = resident_kb();
  auto reconciler = world.reconciler();
  reconciler->take({.changes = first_lists(size), .links = {}});
  const double faults = page_faults();
  const double start = now_ms();
  require_complete(reconciler->run(kStart));
  print_figure("time", now_ms() - start, "ms");
  print_figure("page faults", page_faults() - faults, "");
  print_figure("resident", (resident_kb() - empty) / 1024, "MB");
}

void measure_restart(KernelWorld& world, const Size& size) {
  synced(world, size).reset();
  double start = now_ms();
  const auto services = test::require(world.ipvs->list_services());
  for (const auto& service : services) test::require(world.ipvs->list_servers(service.key));
  world.elements();
  test::require(world.links->list_addresses());
  print_figure("dumps alone", now_ms() - start, "ms");

  auto reconciler = world.reconciler();
  reconciler->take({.changes = first_lists(size), .links = {}});
  const auto before = world.sent();
  start = now_ms();
  require_complete(reconciler->run(kStart));
  print_figure("time", now_ms() - start, "ms");
  const auto after = world.sent();
  print_figure("ipvs dumps", static_cast<double>(after.ipvs_dumps - before.ipvs_dumps), "");
  print_figure("link dumps", static_cast<double>(after.link_dumps - before.link_dumps), "");
  print_figure("write requests", static_cast<double>(after.writes - before.writes), "");
}

// One of each kind of change, at a Service with neither node ports nor a load balancer; `number`
// makes it another one.
void change_once(Cost& cost, const Size& size, int number) {
  const int index = 1 + (number * (size.services / 101)) / 20 * 20 % size.services;
  const auto address = [number](std::uint32_t base) {
    return netlink::IpAddress::v4(base + static_cast<std::uint32_t>(number));
  };
  auto slice = slice_of(size, index);
  cost.add("event that comes twice", with(slice));

  auto list = endpoints_of(slice);
  auto endpoint = list.front();
  for (const auto* place : {"remote", "local"}) {
    const auto put = [&](const char* what) {
      slice.endpoints = list;
      cost.add(fmt::format("{} endpoint {}", place, what), with(slice));
    };
    const bool local = place == std::string_view("local");
    endpoint.node_name = local ? kNode : "node-1";
    endpoint.address = address(local ? 0x0b000000U : 0x0c000000U);
    list.push_back(endpoint);
    put("added");
    list.back().address = address(local ? 0x0b800000U : 0x0c800000U);
    put("replaced");
    list.pop_back();
    put("removed");
  }

  const int new_index = size.services + 1 + number * 20;
  cost.add("service added", with(service_of(size, new_index)));
  model::Changes removal;
  removal.services[service_of(size, new_index).name] = std::nullopt;
  cost.add("service removed", std::move(removal));
}

void measure_changes(KernelWorld& world, const Size& size) {
  auto reconciler = synced(world, size);
  Cost cost(world, *reconciler);
  for (int i = 0; i < 101; ++i) change_once(cost, size, i);
  cost.add("all lists told again", first_lists(size));
  cost.print();
}

// For strace: the third of each kind, when nothing is done for the first time.
void measure_system_calls(KernelWorld& world, const Size& size) {
  auto reconciler = synced(world, size);
  Cost unmarked(world, *reconciler);
  for (int i = 0; i < 2; ++i) change_once(unmarked, size, i);
  Cost cost(world, *reconciler, true);
  change_once(cost, size, 2);
}

// A node goes: its endpoints leave 500 Services at once.
void measure_drain(KernelWorld& world, const Size& size) {
  auto reconciler = synced(world, size);
  Cost cost(world, *reconciler);
  model::Changes changes;
  for (int i = 0; i < 500; ++i) {
    auto slice = slice_of(size, 1 + i * (size.services / 500));
    auto list = endpoints_of(slice);
    list.pop_back();
    slice.endpoints = list;
    changes.put(std::move(slice));
  }
  cost.add("endpoints left 500 Services", std::move(changes));
  cost.print();
}

// Has the kernel give back what its caches keep for later: most of it was requests that it carried
// out. Some of these it frees a moment after it answers.
void shrink_caches() {
  ::sleep(1);
  for (const auto& cache : std::filesystem::directory_iterator("/sys/kernel/slab"))
    std::ofstream(cache.path() / "shrink") << 1;
}

// Bytes that the kernel holds and cannot give back: of its caches, of single large allocations and
// of counters for each processor.
double kernel_memory() {
  shrink_caches();
  double kilobytes = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    words >> name >> value;
    if (name == "SUnreclaim:" || name == "VmallocUsed:" || name == "Percpu:") kilobytes += value;
  }
  return kilobytes * 1024;
}

// What the kernel holds for a Service, of the packet filter and in all.
void measure_kernel_memory(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.take_preparation());
  const double empty = kernel_memory();
  planned.apply(world, planned.take_phases(1));
  const double filter = kernel_memory();
  planned.apply(world, planned.transaction);
  const double all = kernel_memory();
  print_figure("packet filter", (filter - empty) / size.services, "bytes");
  print_figure("all", (all - empty) / size.services, "bytes");
  print_end_state(world);
}

const std::map<std::string_view, Measurement> kMeasurements = {
    {"floor", measure_floor},
    {"apply", measure_apply},
    {"first", measure_first},
    {"kernel_memory", measure_kernel_memory},
    {"restart", measure_restart},
    {"readback", measure_readback},
    {"figures", measure_figures},
    {"changes", measure_changes},
    {"system_calls", measure_system_calls},
    {"drain", measure_drain},
    {"peers", measure_peers},
    {"silence", measure_silence},
    {"load", measure_load},
    {"load_unestimated", measure_load_unestimated},
    {"rolling_update", measure_rolling_update},
    {"twice_floor", measure_twice_floor},
    {"twice", measure_twice},
    {"end_to_end", measure_end_to_end},
    {"updates", measure_updates},
};

int run(int argc, char** argv) {
  const bool nftables = argc == 4 && argv[3] == std::string_view("nftables");
  if ((argc != 3 && !nftables) || !kMeasurements.contains(argv[1])) {
    std::fprintf(stderr, "usage: kernel_bench MEASUREMENT SIZE [nftables]\n");
    return 2;
  }
  try {
    KernelWorld world(nftables ? ipset::PacketFilter::nftables : ipset::PacketFilter::iptables);
    kMeasurements.at(argv[1])(world, size_of(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ipvsproxier::bench

int main(int argc, char** argv) {
  return ipvsproxier::bench::run(argc, argv);
}
