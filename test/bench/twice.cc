// 5,000 real servers are replaced, the old ones removed, and all replaced again: removed real
// servers stay in the kernel's trash for minutes, where every addition passes them.

#include <fmt/format.h>

#include "proxier/plan/diff.h"
#include "proxier/plan/mirror.h"
#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"
#include "test/bench/prebuilt.h"
#include "test/bench/watched_ipvs.h"

namespace ipvsproxier::bench {
namespace {

constexpr int kRolled = 500;  // Services, of ten endpoints

// All endpoints of the Services have other addresses.
model::Changes roll(const Size& size, std::uint32_t addresses) {
  model::Changes changes;
  for (int i = 0; i < kRolled; ++i) {
    auto slice = slice_of(size, 1 + i * (size.services / kRolled));
    auto list = endpoints_of(slice);
    for (auto& endpoint : list) endpoint.address = netlink::IpAddress::v4(addresses++);
    slice.endpoints = list;
    changes.put(std::move(slice));
  }
  return changes;
}

constexpr std::uint32_t kRolls[] = {0x0b000000, 0x0b800000};

// A transaction that is sent in parts: the additions, all else.
struct Split {
  plan::Transaction additions;
  plan::Transaction rest;

  explicit Split(plan::Transaction whole) {
    for (auto& phase : whole.phases)
      (phase.name == "add virtual services" ? additions : rest).phases.push_back(std::move(phase));
  }
};

void commit(const plan::Transaction& transaction, plan::Mirror& kernel) {
  for (const auto& phase : transaction.phases) {
    if (const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work))
      for (const auto& op : *ops) kernel.commit(op);
    if (const auto* changes = std::get_if<std::vector<plan::SetChange>>(&phase.work))
      for (const auto& change : *changes)
        for (const auto& op : change.ops) kernel.commit(change.set, op);
  }
}

}  // namespace

void measure_twice_floor(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.transaction);
  for (const auto addresses : kRolls) {
    const auto touched = planned.cluster.take(roll(size, addresses));
    const auto scope = planned.planner.update(touched.services, planned.cluster);
    const auto& desired = planned.planner.desired();
    const Split split(plan::diff(desired, planned.kernel.state(), scope));
    plan::Transaction removals;
    commit(split.additions, planned.kernel);
    commit(split.rest, planned.kernel);
    std::vector<netlink::IpvsOp> gone;
    for (const auto& key : scope.services)
      for (const auto& server : plan::draining(desired, planned.kernel.state(), key))
        gone.emplace_back(netlink::DeleteServer{key, server});
    removals.phases.push_back({"remove", std::move(gone)});
    commit(removals, planned.kernel);
    Prebuilt additions(split.additions);
    Prebuilt rest(split.rest);
    Prebuilt removed(removals);
    const double start = now_ms();
    additions.send();
    const std::string name = addresses == kRolls[0] ? "first" : "second";
    print_figure(name + " roll, additions", now_ms() - start, "ms");
    rest.send();
    removed.send();
  }
}

void measure_twice(KernelWorld& world, const Size& size) {
  WatchedIpvsTable watched(*world.ipvs);
  auto reconciler = world.reconciler(watched, std::chrono::seconds(1));
  reconciler->take({.changes = first_lists(size), .links = {}});
  auto now = kStart;
  require_complete(reconciler->run(now));
  for (const auto addresses : kRolls) {
    const double before = watched.addition_ms();
    const double start = now_ms();
    reconciler->take({.changes = roll(size, addresses), .links = {}});
    now += std::chrono::seconds(1);
    do require_complete(reconciler->run(now));
    while (reconciler->has_turns());
    const std::string name = addresses == kRolls[0] ? "first" : "second";
    print_figure(name + " roll, additions", watched.addition_ms() - before, "ms");
    print_figure(name + " roll, all", now_ms() - start, "ms");
    // What drained goes.
    for (int i = 0; i < 3; ++i) {
      now += std::chrono::seconds(5);
      do require_complete(reconciler->run(now));
      while (reconciler->reading());
    }
  }
}

}  // namespace ipvsproxier::bench
