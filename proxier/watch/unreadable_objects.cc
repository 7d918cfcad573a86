#include "proxier/watch/unreadable_objects.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::watch {

std::optional<std::string> why_unreadable(const std::optional<api::Object>& object,
                                          const api::Problems& problems) {
  if (object) return std::nullopt;
  const auto error = std::find_if(problems.begin(), problems.end(), [](const auto& problem) {
    return problem.severity == api::Severity::error;
  });
  if (error == problems.end()) return std::nullopt;
  return api::to_string(*error);
}

void UnreadableObjects::list(const api::NamespacedName& name, Why why) {
  if (why)
    listed_[name] = *std::move(why);
  else
    listed_.erase(name);
}

void UnreadableObjects::end_list(UnreadableChanges& changes) {
  for (const auto& [name, why] : known_)
    if (!listed_.contains(name)) changes[name] = std::nullopt;
  for (const auto& [name, why] : listed_)
    if (const auto before = known_.find(name); before == known_.end() || before->second != why)
      changes[name] = why;
  known_ = std::exchange(listed_, {});
}

void UnreadableObjects::set(const api::NamespacedName& name, Why why, UnreadableChanges& changes) {
  if (!why) {
    if (known_.erase(name) > 0) changes[name] = std::nullopt;
    return;
  }
  auto& known = known_[name];
  if (known == *why) return;
  known = *why;
  changes[name] = *std::move(why);
}

}  // namespace ipvsproxier::watch
