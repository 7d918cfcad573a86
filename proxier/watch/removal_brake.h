#pragma once

// RemovalBrake: which of the objects that a list lacks stay for now. Pure; the clock is the
// caller's. One thread at a time.
//
// A server that lists far fewer objects than there were may have lost them (a store restored from
// an empty backup, a cache that is not filled) rather than seen them deleted. So when a list lacks
// more than half of what is known, and that is at least 20 objects, what it lacks stays for one
// wait, and goes when a list that was begun after that lacks it, too.
//
// Every object has its own wait, from the end of the first list that lacks it. So none waits for
// longer than that and the next whole list, whatever further lists lack; who deletes many objects
// between two lists delays those alone.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include "proxier/api/names.h"

namespace ipvsproxier::watch {

class RemovalBrake {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Wait = std::optional<std::chrono::nanoseconds>;  // nullopt: nothing is ever held
  using Names = std::set<api::NamespacedName>;

  explicit RemovalBrake(Wait wait) : wait_(wait) {}

  // A list is whole, begun and ended at these times, and lacks `missing` of the `known` objects.
  // Answers which of them stay.
  Names judge(const Names& missing, std::size_t known, TimePoint begun, TimePoint ended);
  // An event tells of the object: it is as the event says.
  void forget(const api::NamespacedName& name) { since_.erase(name); }

  std::size_t held() const { return since_.size(); }
  // When to list again for the first that is held; nullopt: nothing is.
  std::optional<TimePoint> due() const;

 private:
  Wait wait_;
  std::map<api::NamespacedName, TimePoint> since_;  // of those that are held
};

}  // namespace ipvsproxier::watch
