#pragma once

// UnreadableObjects: which objects of one resource exist and cannot be read, and why. Pure. One
// thread at a time. An object without a name has an empty one: there is at most one of these.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proxier/api/names.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/watch/known_objects.h"

namespace ipvsproxier::watch {

// Why, by name; nullopt: it can be read now, or is gone.
using UnreadableChanges = std::map<api::NamespacedName, std::optional<std::string>>;

// Why an object cannot be read, if so, as it was decoded. One that no proxy serves comes without an
// object and without an error.
std::optional<std::string> why_unreadable(const std::optional<api::Object>& object,
                                          const api::Problems& problems);

class UnreadableObjects {
 public:
  using Why = std::optional<std::string>;  // nullopt: it can be read, or is not there

  // --- A list. What it says counts when it ends; a new begin_list() forgets what it said so far.
  void begin_list() { listed_.clear(); }
  void list(const api::NamespacedName& name, Why why);
  // All of the list is there: what was known and is not in it.
  std::set<api::NamespacedName> missing(const KnownObjects& objects) const;
  // Adds the difference to `changes`. Of what is missing `kept` stays as it was.
  void end_list(const std::set<api::NamespacedName>& kept, UnreadableChanges& changes);

  // An event's news of an object.
  void set(const api::NamespacedName& name, Why why, UnreadableChanges& changes);

  std::size_t size() const { return known_.size(); }
  // How many there are of `objects` and these together.
  std::size_t count_with(const KnownObjects& objects) const;

 private:
  std::map<api::NamespacedName, std::string> known_;
  std::map<api::NamespacedName, std::string> listed_;
};

}  // namespace ipvsproxier::watch
