#include "proxier/watch/unreadable_objects.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::watch {

void UnreadableObjects::list(const api::NamespacedName& name, Why why) {
  if (why)
    listed_[name] = *std::move(why);
  else
    listed_.erase(name);
}

std::set<api::NamespacedName> UnreadableObjects::missing(const KnownObjects& objects) const {
  std::set<api::NamespacedName> names;
  for (const auto& [name, why] : known_)
    if (!listed_.contains(name) && objects.is_missing(name)) names.insert(names.end(), name);
  return names;
}

void UnreadableObjects::end_list(const std::set<api::NamespacedName>& kept,
                                 model::Changes& changes) {
  for (const auto& [name, why] : known_) {
    if (listed_.contains(name)) continue;
    if (kept.contains(name))
      listed_[name] = why;
    else
      changes.unreadable[{kind_, name}] = std::nullopt;
  }
  for (const auto& [name, why] : listed_)
    if (const auto before = known_.find(name); before == known_.end() || before->second != why)
      changes.unreadable[{kind_, name}] = why;
  known_ = std::exchange(listed_, {});
}

void UnreadableObjects::set(const api::NamespacedName& name, Why why, model::Changes& changes) {
  if (!why) {
    if (known_.erase(name) > 0) changes.unreadable[{kind_, name}] = std::nullopt;
    return;
  }
  auto& known = known_[name];
  if (known == *why) return;
  known = *why;
  changes.unreadable[{kind_, name}] = *std::move(why);
}

std::size_t UnreadableObjects::count_with(const KnownObjects& objects) const {
  const auto others = std::count_if(known_.begin(), known_.end(),
                                    [&](const auto& known) { return !objects.knows(known.first); });
  return objects.size() + static_cast<std::size_t>(others);
}

}  // namespace ipvsproxier::watch
