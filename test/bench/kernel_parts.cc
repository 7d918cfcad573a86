#include "test/bench/kernel_parts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <utility>

#include "proxier/plan/diff.h"
#include "proxier/sync/read_back.h"
#include "test/bench/allocations.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {

double resident_kb(const std::string& process) {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      double kb = 0;
      status >> kb;
      return kb;
    }
  return 0;
}

double page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt);
}

Planned::Planned(KernelWorld& world, const Size& size) : planner(world.options) {
  test::require(world.links->ensure_dummy(plan::kDummyLink));
  planner.set_node(node());
  double start = now_ms();
  cluster.take(first_lists(size));
  print_figure("objects taken", now_ms() - start, "ms");
  start = now_ms();
  planner.update_all(cluster);
  print_figure("planned", now_ms() - start, "ms");
  auto tables = world.kernel();
  kernel.read_anew([&](plan::ActualState& state) {
    state.addresses.emplace();
    sync::read_kernel(tables, planner.desired(), state);
  });
  start = now_ms();
  transaction = plan::diff(planner.desired(), kernel.state());
  print_figure("difference", now_ms() - start, "ms");
  for (const auto& phase : transaction.phases)
    if (const auto* ops = std::get_if<std::vector<plan::BindingOp>>(&phase.work))
      for (const auto& op : *ops)
        test::require(world.links->ensure_dummy(plan::dummy_link(op.binding.place)));
}

plan::Transaction Planned::take_preparation() {
  const auto& phases = transaction.phases;
  const auto elements = std::find_if(phases.begin(), phases.end(), [](const plan::Phase& phase) {
    return phase.name == "add elements";
  });
  return take_phases(static_cast<std::size_t>(elements - phases.begin()));
}

plan::Transaction Planned::take_phases(std::size_t count) {
  plan::Transaction taken;
  auto& phases = transaction.phases;
  const auto end = phases.begin() + static_cast<std::ptrdiff_t>(count);
  taken.phases.assign(phases.begin(), end);
  phases.erase(phases.begin(), end);
  return taken;
}

sync::Outcome Planned::apply(KernelWorld& world, const plan::Transaction& some) {
  const std::function<void()> progress = [] {};
  auto outcome = sync::Applier(world.kernel(), kernel, progress).apply(some, {});
  for (const auto& failure : outcome.failures)
    throw std::runtime_error(failure.what + ": " + netlink::to_string(failure.error));
  return outcome;
}

void print_end_state(KernelWorld& world) {
  print_figure("virtual servers", static_cast<double>(world.virtual_servers()), "");
  print_figure("elements", static_cast<double>(world.elements()), "");
  print_figure("addresses", static_cast<double>(world.addresses()), "");
}

std::unique_ptr<sync::Reconciler> synced(KernelWorld& world, const Size& size) {
  auto reconciler = world.reconciler();
  reconciler->take({.changes = first_lists(size), .links = {}});
  require_complete(reconciler->run(kStart));
  return reconciler;
}

void Cost::add(const std::string& kind, model::Changes changes) {
  world_.tap().take();
  const auto before = world_.sent();
  const auto allocated = allocations();
  mark("begin " + kind);
  const double start = now_ms();
  reconciler_.take({.changes = std::move(changes), .links = {}});
  do require_complete(reconciler_.run(kStart + std::chrono::milliseconds(++runs_)));
  while (reconciler_.has_turns());
  const double end = now_ms();
  mark("end " + kind);
  auto& kinds = costs_[kind];
  kinds.times.push_back(end - start);
  const auto after = world_.sent();
  const auto writes = world_.tap().take();
  kinds.allocations.push_back(static_cast<double>(allocations() - allocated));
  const auto most = [](std::uint64_t& value, std::uint64_t seen) { value = std::max(value, seen); };
  most(kinds.ipvs, writes.ipvs);
  most(kinds.sets, writes.sets);
  most(kinds.links, writes.links);
  // Those of IP sets are not counted where they are sent: a message is one.
  const auto of_sets = world_.nftables ? 0 : writes.sets;
  most(kinds.datagrams, after.datagrams - before.datagrams + of_sets);
  most(kinds.transactions, after.transactions - before.transactions);
  most(kinds.set_listings, after.set_dumps - before.set_dumps);
  most(kinds.rule_tables, after.rule_accesses - before.rule_accesses);
  most(kinds.dumps, after.ipvs_dumps + after.link_dumps - before.ipvs_dumps - before.link_dumps);
}

// A write that tells who looks on with strace where the system calls of one change begin and end.
void Cost::mark(const std::string& what) {
  if (!marks_) return;
  if (::write(STDERR_FILENO, what.data(), what.size()) < 0) throw std::runtime_error("stderr");
}

void Cost::print() {
  for (auto& [kind, cost] : costs_) {
    print_times(kind, cost.times);
    print_figure(kind + ", ipvs messages", static_cast<double>(cost.ipvs), "");
    print_figure(kind + ", set messages", static_cast<double>(cost.sets), "");
    print_figure(kind + ", link messages", static_cast<double>(cost.links), "");
    print_figure(kind + ", datagrams", static_cast<double>(cost.datagrams), "");
    print_figure(kind + ", transactions", static_cast<double>(cost.transactions), "");
    print_figure(kind + ", dumps", static_cast<double>(cost.dumps), "");
    print_figure(kind + ", set listings", static_cast<double>(cost.set_listings), "");
    print_figure(kind + ", rule tables", static_cast<double>(cost.rule_tables), "");
    std::sort(cost.allocations.begin(), cost.allocations.end());
    print_figure(kind + ", allocations", cost.allocations[cost.allocations.size() / 2], "");
  }
}

model::Changes with(api::Object object) {
  model::Changes changes;
  changes.put(std::move(object));
  return changes;
}

void print_times(const std::string& name, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  print_figure(name + ", time", times[times.size() / 2], "ms");
  print_figure(name + ", p99", times[times.size() * 99 / 100], "ms");
  print_figure(name + ", longest", times.back(), "ms");
}

}  // namespace ipvsproxier::bench
