#include "proxier/sync/trigger_times.h"

#include "proxier/sync/retries.h"

namespace ipvsproxier::sync {

void TriggerTimes::note(const std::vector<model::Trigger>& triggers) {
  for (const auto& trigger : triggers)
    if (noted_.size() < kMost) noted_.insert(trigger);
}

std::vector<model::Trigger> TriggerTimes::take(const plan::Planner& planner,
                                               const plan::Scope& waiting, bool sure) {
  std::vector<model::Trigger> programmed;
  if (!sure) return programmed;
  std::erase_if(noted_, [&](const model::Trigger& trigger) {
    if (!is_programmed(planner.vips_of(trigger.service), waiting, trigger.family)) return false;
    programmed.push_back(trigger);
    return true;
  });
  return programmed;
}

}  // namespace ipvsproxier::sync
