#pragma once

// LastChanges: when Services were last planned again because they or their endpoints changed, and
// how long that sync took. A bounded number of them: the oldest are forgotten. Sync thread only.

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>

#include "proxier/api/names.h"

namespace ipvsproxier::sync {

class LastChanges {
 public:
  static constexpr std::size_t kMost = 1000;

  struct Change {
    std::chrono::system_clock::time_point when;
    std::chrono::nanoseconds took{0};
  };

  // A sync takes these up.
  void begin(const std::set<api::NamespacedName>& services);
  // It ended.
  void end(const Change& change);

  // nullopt: it is not known any more.
  std::optional<Change> of(const api::NamespacedName& service) const;

 private:
  struct Entry {
    api::NamespacedName service;
    std::optional<Change> change;  // of a sync that ended
  };
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace ipvsproxier::sync
