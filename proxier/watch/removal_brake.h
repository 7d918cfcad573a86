#pragma once

// RemovalBrake: decides which objects stay although a list lacks them. Pure; the caller provides
// the clock. One thread at a time.
//
// A server that lists far fewer objects than before may have lost them (a store restored from an
// empty backup, an empty cache). So if a list lacks more than half of the known objects, and these
// are at least 20 objects, the missing objects stay for one wait. They are deleted when a list that
// began after the wait lacks them as well.
//
// Each object has its own wait, from the end of the first list that lacks it. No object stays
// longer than its wait and the next complete list, whatever further lists lack. A deletion of many
// objects between two lists delays only these objects.

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
  using Wait = std::optional<std::chrono::nanoseconds>;  // nullopt: no object is held
  using Names = std::set<api::NamespacedName>;

  explicit RemovalBrake(Wait wait) : wait_(wait) {}

  // Judges a complete list with these times, which lacks `missing` of the `known` objects. Returns
  // the objects that stay.
  Names judge(const Names& missing, std::size_t known, TimePoint begun, TimePoint ended);
  // An event reported the object: it is no longer held.
  void forget(const api::NamespacedName& name) { since_.erase(name); }

  std::size_t held() const { return since_.size(); }
  // When to list again for the first held object; nullopt: none is held.
  std::optional<TimePoint> due() const;

 private:
  Wait wait_;
  std::map<api::NamespacedName, TimePoint> since_;  // the held objects
};

}  // namespace ipvsproxier::watch
