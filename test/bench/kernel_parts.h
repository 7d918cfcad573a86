#pragma once

// What measurements of the kernel side have in common: a cluster that is planned, one that is
// programmed, and what each kind of change costs then. One thread. Failures throw
// std::runtime_error.

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxier/model/changes.h"
#include "proxier/plan/mirror.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/applier.h"
#include "test/bench/kernel_world.h"

namespace ipvsproxier::bench {

// When a reconciler's first run is.
inline constexpr sync::TimePoint kStart{std::chrono::hours(1)};

// Kilobytes of resident memory of this process, or of another one.
double resident_kb(const std::string& process = "self");

// Minor page faults of this process so far: in a guest each takes a while.
double page_faults();

// A planner that knows a cluster, the kernel as it was read, and what takes one to the other.
struct Planned {
  plan::Planner planner;
  model::ClusterState cluster;
  plan::Mirror kernel;
  plan::Transaction transaction;

  Planned(KernelWorld& world, const Size& size);

  // The phases before the first one that exposes anything: sets and rules.
  plan::Transaction take_preparation();
  // The next ones; after the preparation the first is that of the elements.
  plan::Transaction take_phases(std::size_t count);
  sync::Outcome apply(KernelWorld& world, const plan::Transaction& some);
};

// What the kernel holds of virtual servers, elements and addresses, counted past the daemon: those
// that are compared must end alike.
void print_end_state(KernelWorld& world);

// A reconciler that has programmed everything.
std::unique_ptr<sync::Reconciler> synced(KernelWorld& world, const Size& size);

// What one kind of change costs, over many: the most messages and accesses; of allocations and
// times the median.
class Cost {
 public:
  // With `marks` each change is told on stderr when it begins and ends.
  Cost(KernelWorld& world, sync::Reconciler& reconciler, bool marks = false)
      : world_(world), reconciler_(reconciler), marks_(marks) {}

  void add(const std::string& kind, model::Changes changes);
  void print();

 private:
  struct OfKind {
    std::vector<double> times;
    std::vector<double> allocations;
    std::uint64_t ipvs = 0, sets = 0, links = 0, datagrams = 0, transactions = 0, dumps = 0;
    std::uint64_t set_listings = 0, rule_tables = 0;
  };
  void mark(const std::string& what);

  KernelWorld& world_;
  sync::Reconciler& reconciler_;
  const bool marks_;
  std::map<std::string, OfKind> costs_;
  int runs_ = 0;
};

model::Changes with(api::Object object);

// Prints the median of times in milliseconds, the 99th percentile and the longest.
void print_times(const std::string& name, std::vector<double> times);

}  // namespace ipvsproxier::bench
