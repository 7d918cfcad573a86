// The kernel side at scale. Runs in the scratch kernel, each measurement in a fresh one: what a
// flush leaves in the kernel makes the next slow.
//
//   kernel_bench MEASUREMENT SIZE     prints lines NAME<tab>VALUE<tab>UNIT

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "proxier/plan/diff.h"
#include "proxier/sync/applier.h"
#include "proxier/sync/read_back.h"
#include "test/bench/kernel_world.h"
#include "test/bench/prebuilt.h"
#include "test/bench/quadratic_bench.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {
namespace {

using sync::TimePoint;

constexpr TimePoint kStart{std::chrono::hours(1)};

// Kilobytes of resident memory.
double resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      double kb = 0;
      status >> kb;
      return kb;
    }
  return 0;
}

// A planner that knows a cluster, the kernel as it was read, and what takes one to the other.
struct Planned {
  plan::Planner planner{planner_options()};
  model::ClusterState cluster;
  plan::ActualState kernel;
  plan::Transaction transaction;

  Planned(KernelWorld& world, const Size& size) {
    test::require(world.links->ensure_dummy(plan::kDummyLink));
    planner.set_node(node());
    double start = now_ms();
    auto touched = cluster.take(first_lists(size));
    print_figure("objects taken", now_ms() - start, "ms");
    start = now_ms();
    planner.update(touched.services, cluster);
    print_figure("planned", now_ms() - start, "ms");
    auto tables = world.kernel();
    kernel.addresses.emplace();
    sync::read_kernel(tables, planner.desired(), kernel);
    start = now_ms();
    transaction = plan::diff(planner.desired(), kernel);
    print_figure("difference", now_ms() - start, "ms");
    for (const auto& phase : transaction.phases)
      if (const auto* ops = std::get_if<std::vector<plan::BindingOp>>(&phase.work))
        for (const auto& op : *ops)
          test::require(world.links->ensure_dummy(plan::dummy_link(op.binding.place)));
  }

  // The phases before the first one that exposes anything: sets and rules.
  plan::Transaction take_preparation() {
    plan::Transaction preparation;
    auto& phases = transaction.phases;
    const auto first = std::find_if(phases.begin(), phases.end(), [](const plan::Phase& phase) {
      return phase.name == "add elements";
    });
    preparation.phases.assign(phases.begin(), first);
    phases.erase(phases.begin(), first);
    return preparation;
  }

  sync::Outcome apply(KernelWorld& world, const plan::Transaction& some) {
    const std::function<void()> progress = [] {};
    auto outcome = sync::Applier(world.kernel(), kernel, progress).apply(some, {});
    for (const auto& failure : outcome.failures)
      throw std::runtime_error(failure.what + ": " + netlink::to_string(failure.error));
    return outcome;
  }
};

void measure_floor(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.take_preparation());
  Prebuilt prebuilt(planned.transaction);
  const double start = now_ms();
  prebuilt.send();
  print_figure("time", now_ms() - start, "ms");
  print_figure("messages", static_cast<double>(prebuilt.messages()), "");
  print_figure("datagrams", static_cast<double>(prebuilt.datagrams()), "");
  print_figure("virtual servers", static_cast<double>(world.virtual_servers()), "");
  print_figure("elements", static_cast<double>(world.elements()), "");
}

// The same messages by the same path as the daemon's.
void measure_apply(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.take_preparation());
  const auto before = world.sent();
  const double start = now_ms();
  planned.apply(world, planned.transaction);
  print_figure("time", now_ms() - start, "ms");
  const auto after = world.sent();
  print_figure("ipvs messages", static_cast<double>(after.ipvs_writes - before.ipvs_writes), "");
  print_figure("address messages", static_cast<double>(after.link_writes - before.link_writes), "");
  print_figure("datagrams but for sets", static_cast<double>(after.datagrams - before.datagrams),
               "");
  print_figure("virtual servers", static_cast<double>(world.virtual_servers()), "");
  print_figure("elements", static_cast<double>(world.elements()), "");
}

// A reconciler that has programmed everything.
std::unique_ptr<sync::Reconciler> synced(KernelWorld& world, const Size& size) {
  auto reconciler = world.reconciler();
  reconciler->take({.changes = first_lists(size), .links = {}});
  require_complete(reconciler->run(kStart));
  return reconciler;
}

void measure_first(KernelWorld& world, const Size& size) {
  const double empty = resident_kb();
  auto reconciler = world.reconciler();
  reconciler->take({.changes = first_lists(size), .links = {}});
  const double start = now_ms();
  require_complete(reconciler->run(kStart));
  print_figure("time", now_ms() - start, "ms");
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
    for (const auto id : ipset::kSetIds) {
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

// What one kind of change costs, over many: the most messages, the median time.
class Cost {
 public:
  Cost(KernelWorld& world, sync::Reconciler& reconciler) : world_(world), reconciler_(reconciler) {}

  void add(const std::string& kind, model::Changes changes) {
    world_.tap().take();
    const auto before = world_.sent();
    const double start = now_ms();
    reconciler_.take({.changes = std::move(changes), .links = {}});
    require_complete(reconciler_.run(kStart + std::chrono::milliseconds(++runs_)));
    auto& kinds = costs_[kind];
    kinds.times.push_back(now_ms() - start);
    const auto after = world_.sent();
    const auto writes = world_.tap().take();
    const auto most = [](std::uint64_t& value, std::uint64_t seen) {
      value = std::max(value, seen);
    };
    most(kinds.ipvs, writes.ipvs);
    most(kinds.sets, writes.sets);
    most(kinds.links, writes.links);
    most(kinds.datagrams, after.datagrams - before.datagrams + writes.sets);
    most(kinds.dumps, after.ipvs_dumps + after.link_dumps - before.ipvs_dumps - before.link_dumps);
  }

  void print() {
    for (auto& [kind, cost] : costs_) {
      std::sort(cost.times.begin(), cost.times.end());
      print_figure(kind + ", time", cost.times[cost.times.size() / 2], "ms");
      print_figure(kind + ", p99", cost.times[cost.times.size() * 99 / 100], "ms");
      print_figure(kind + ", ipvs messages", static_cast<double>(cost.ipvs), "");
      print_figure(kind + ", set messages", static_cast<double>(cost.sets), "");
      print_figure(kind + ", link messages", static_cast<double>(cost.links), "");
      print_figure(kind + ", datagrams", static_cast<double>(cost.datagrams), "");
      print_figure(kind + ", dumps", static_cast<double>(cost.dumps), "");
    }
  }

 private:
  struct OfKind {
    std::vector<double> times;
    std::uint64_t ipvs = 0, sets = 0, links = 0, datagrams = 0, dumps = 0;
  };
  KernelWorld& world_;
  sync::Reconciler& reconciler_;
  std::map<std::string, OfKind> costs_;
  int runs_ = 0;
};

model::Changes with(api::Object object) {
  model::Changes changes;
  changes.put(std::move(object));
  return changes;
}

void measure_changes(KernelWorld& world, const Size& size) {
  auto reconciler = synced(world, size);
  Cost cost(world, *reconciler);
  for (int i = 0; i < 101; ++i) {
    // Neither node ports nor a load balancer.
    const int index = 1 + (i * (size.services / 101)) / 20 * 20 % size.services;
    auto slice = slice_of(size, index);
    cost.add("slice without a change", with(slice));
    auto list = slice.endpoints.unpack();
    const auto put = [&](const char* what) {
      slice.endpoints = list;
      cost.add(what, with(slice));
    };
    auto endpoint = list.front();
    endpoint.node_name = "node-1";
    endpoint.address = netlink::IpAddress::v4(0x0b000000U + static_cast<std::uint32_t>(i));
    list.push_back(endpoint);
    put("remote endpoint added");
    list.pop_back();
    put("remote endpoint removed");
    endpoint.node_name = kNode;
    list.push_back(endpoint);
    put("local endpoint added");
    list.back().address = netlink::IpAddress::v4(0x0b800000U + static_cast<std::uint32_t>(i));
    put("local endpoint replaced");
    list.pop_back();
    put("local endpoint removed");

    const int new_index = size.services + 1 + i * 20;
    cost.add("service added", with(service_of(size, new_index)));
    model::Changes removal;
    removal.services[service_of(size, new_index).name] = std::nullopt;
    cost.add("service removed", std::move(removal));
  }
  cost.print();
}

// A node goes: its endpoints leave 500 Services at once.
void measure_drain(KernelWorld& world, const Size& size) {
  auto reconciler = synced(world, size);
  Cost cost(world, *reconciler);
  model::Changes changes;
  for (int i = 0; i < 500; ++i) {
    auto slice = slice_of(size, 1 + i * (size.services / 500));
    auto list = slice.endpoints.unpack();
    list.pop_back();
    slice.endpoints = list;
    changes.put(std::move(slice));
  }
  cost.add("endpoints left 500 Services", std::move(changes));
  cost.print();
}

using Measurement = void (*)(KernelWorld&, const Size&);

const std::map<std::string_view, Measurement> kMeasurements = {
    {"floor", measure_floor},           {"apply", measure_apply},
    {"first", measure_first},           {"restart", measure_restart},
    {"readback", measure_readback},     {"changes", measure_changes},
    {"drain", measure_drain},           {"vips", measure_vips},
    {"schedulers", measure_schedulers},
};

int run(int argc, char** argv) {
  if (argc != 3 || !kMeasurements.contains(argv[1])) {
    std::fprintf(stderr, "usage: kernel_bench MEASUREMENT SIZE\n");
    return 2;
  }
  try {
    KernelWorld world;
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
