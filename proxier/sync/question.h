#pragma once

// Questions to the sync thread: it answers them between two syncs, from what it knows. What they
// look at belongs to that thread, so an answer is made there, and must be short: the next sync
// waits for it.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/drain.h"
#include "proxier/sync/last_changes.h"
#include "proxier/sync/refusals.h"

namespace ipvsproxier::sync {

// How the sync thread is doing. Times are of the wall clock; nullopt: not yet.
struct SyncStanding {
  using Time = std::chrono::system_clock::time_point;

  bool listed = false;                    // the cluster's first lists are there
  bool known = false;                     // the kernel was read
  bool settled = false;                   // the kernel is what the cluster asks for and it takes
  std::optional<Time> last_sync;          // that changed something or failed
  std::chrono::nanoseconds last_took{0};  // that one
  // The whole kernel was read and is right. What was changed later was acknowledged as it was
  // written, and is compared again with the next reading.
  std::optional<Time> agreed;
  std::size_t draining = 0;  // real servers
  std::size_t waiting = 0;   // parts of the kernel state that wait for another try
  std::optional<std::chrono::milliseconds> next_try;
  std::vector<std::string> wrong;  // what is wrong now, a line each
};

struct Inspection {
  const model::ClusterState& cluster;
  const plan::Planner& planner;
  const plan::ActualState& kernel;  // as far as known: services, addresses may be absent
  const SyncStanding& standing;
  const Drain& drain;
  const LastChanges& changes;
  const Refusals& refusals;
  TimePoint now;  // of the drain
};

using Question = std::function<void(const Inspection&)>;

}  // namespace ipvsproxier::sync
