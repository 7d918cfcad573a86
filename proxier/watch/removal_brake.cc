#include "proxier/watch/removal_brake.h"

#include <algorithm>
#include <utility>

#include "proxier/api/mass_removal.h"

namespace ipvsproxier::watch {

RemovalBrake::Names RemovalBrake::judge(const Names& missing, std::size_t known, TimePoint begun,
                                        TimePoint ended) {
  if (!wait_) return {};
  Names fresh;
  std::size_t gone = 0;
  const auto before = std::exchange(since_, {});
  for (const auto& name : missing) {
    const auto held = before.find(name);
    if (held == before.end())
      fresh.insert(name);
    else if (begun >= held->second + *wait_)
      ++gone;
    else
      since_.insert(*held);
  }
  // Objects that have waited long enough no longer count for the decision.
  if (api::is_mass_removal(since_.size() + fresh.size(), known - gone))
    for (const auto& name : fresh) since_.emplace(name, ended);
  Names stay;
  for (const auto& [name, when] : since_) stay.insert(stay.end(), name);
  return stay;
}

std::optional<RemovalBrake::TimePoint> RemovalBrake::due() const {
  if (since_.empty()) return std::nullopt;
  const auto first =
      std::min_element(since_.begin(), since_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return first->second + *wait_;
}

}  // namespace ipvsproxier::watch
