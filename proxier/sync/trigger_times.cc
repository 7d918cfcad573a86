#include "proxier/sync/trigger_times.h"

#include <algorithm>
#include <chrono>

#include "proxier/sync/retries.h"

namespace ipvsproxier::sync {

namespace {

bool of_one(const model::Trigger& one, const model::Trigger& other) {
  return one.service == other.service && one.family == other.family;
}

}  // namespace

bool TriggerTimes::has_room_for(const model::Trigger& trigger) const {
  if (noted_.size() >= kMost) return false;
  auto first = trigger;
  first.time = std::chrono::system_clock::time_point::min();
  std::size_t count = 0;
  for (auto it = noted_.lower_bound(first); it != noted_.end() && of_one(*it, trigger); ++it)
    if (++count >= kMostOfOne) return false;
  return true;
}

void TriggerTimes::note(const std::vector<model::Trigger>& triggers) {
  for (const auto& trigger : triggers)
    if (has_room_for(trigger)) noted_.insert(trigger);
}

std::vector<model::Trigger> TriggerTimes::take(const plan::Planner& planner,
                                               const plan::Scope& waiting, bool sure,
                                               const Turns& turns) {
  std::vector<model::Trigger> programmed;
  if (!sure) return programmed;
  for (auto it = noted_.begin(); it != noted_.end();) {
    const auto end =
        std::find_if(it, noted_.end(), [&](const auto& other) { return !of_one(*it, other); });
    if (!turns.contains(it->service) &&
        is_programmed(planner.vips_of(it->service), waiting, it->family)) {
      programmed.insert(programmed.end(), it, end);
      noted_.erase(it, end);
    }
    it = end;
  }
  return programmed;
}

}  // namespace ipvsproxier::sync
