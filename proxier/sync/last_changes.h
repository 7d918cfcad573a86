#pragma once

// LastChanges: when each Service was last planned again because it or its endpoints changed, and
// how long that sync took. Bounded: the oldest entries are dropped. Sync thread only.

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

  // A sync that plans these Services begins.
  void begin(const std::set<api::NamespacedName>& services);
  // The sync ended.
  void end(const Change& change);

  // nullopt: unknown, or dropped.
  std::optional<Change> of(const api::NamespacedName& service) const;

 private:
  struct Entry {
    api::NamespacedName service;
    std::optional<Change> change;  // nullopt until the sync ended
  };
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace ipvsproxier::sync
