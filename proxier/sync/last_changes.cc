#include "proxier/sync/last_changes.h"

#include <algorithm>

namespace ipvsproxier::sync {

void LastChanges::begin(const std::set<api::NamespacedName>& services) {
  if (services.size() > kMost) {  // the older entries are beyond the limit as well
    entries_.clear();
    return;
  }
  const auto room = kMost - services.size();
  while (entries_.size() > room) entries_.pop_front();
  for (const auto& service : services) entries_.push_back({service, std::nullopt});
}

void LastChanges::end(const Change& change) {
  for (auto it = entries_.rbegin(); it != entries_.rend() && !it->change; ++it) it->change = change;
}

// The newest entry counts.
std::optional<LastChanges::Change> LastChanges::of(const api::NamespacedName& service) const {
  const auto it = std::find_if(entries_.rbegin(), entries_.rend(),
                               [&](const Entry& entry) { return entry.service == service; });
  return it == entries_.rend() ? std::nullopt : it->change;
}

}  // namespace ipvsproxier::sync
