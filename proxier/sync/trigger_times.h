#pragma once

// TriggerTimes: changes of endpoints that are not in the kernel yet, with their times. Sync thread
// only.

#include <set>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/turns.h"

namespace ipvsproxier::sync {

class TriggerTimes {
 public:
  // Limit while a kernel refuses everything; further changes are not measured.
  static constexpr std::size_t kMost = 10'000;
  // Limit for one Service and family, so that a refused Service does not fill the list.
  static constexpr std::size_t kMostOfOne = 100;

  void note(const std::vector<model::Trigger>& triggers);

  // Removes and returns the changes that are now in the kernel. `waiting`: parts of the kernel
  // state that are not as desired; `sure`: all other parts are known to be, except those of
  // Services in `turns`.
  std::vector<model::Trigger> take(const plan::Planner& planner, const plan::Scope& waiting,
                                   bool sure, const Turns& turns = {});

 private:
  bool has_room_for(const model::Trigger& trigger) const;

  std::set<model::Trigger> noted_;
};

}  // namespace ipvsproxier::sync
