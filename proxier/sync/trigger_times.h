#pragma once

// TriggerTimes: changes of endpoints whose effect is not in the kernel yet, with when they were
// made. Sync thread only.

#include <set>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::sync {

class TriggerTimes {
 public:
  // While a kernel refuses everything; those beyond are not measured.
  static constexpr std::size_t kMost = 10'000;
  // Of one Service and family: one that the kernel refuses must not be all that is measured.
  static constexpr std::size_t kMostOfOne = 100;

  void note(const std::vector<model::Trigger>& triggers);

  // Those that are in the kernel by now, each once. `waiting`: parts of the kernel state that are
  // not as wanted; `sure`: all others are.
  std::vector<model::Trigger> take(const plan::Planner& planner, const plan::Scope& waiting,
                                   bool sure);

 private:
  bool has_room_for(const model::Trigger& trigger) const;

  std::set<model::Trigger> noted_;
};

}  // namespace ipvsproxier::sync
