#pragma once

// UnreadableObjects: the objects of one resource that exist but cannot be read, with the reason.
// Pure. One thread at a time. Objects without a readable name share one entry with an empty name.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proxier/api/names.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/model/changes.h"
#include "proxier/watch/known_objects.h"

namespace ipvsproxier::watch {

class UnreadableObjects {
 public:
  using Why = std::optional<std::string>;  // nullopt: readable, or absent

  explicit UnreadableObjects(api::ObjectKind kind) : kind_(kind) {}

  // --- Lists. A list takes effect at its end; a new begin_list() discards an unfinished list.
  void begin_list() { listed_.clear(); }
  void list(const api::NamespacedName& name, Why why);
  // The known unreadable objects that the complete list lacks.
  std::set<api::NamespacedName> missing(const KnownObjects& objects) const;
  // Adds the differences to `changes`. Of the missing objects those in `kept` stay.
  void end_list(const std::set<api::NamespacedName>& kept, model::Changes& changes);

  // An event reported the object.
  void set(const api::NamespacedName& name, Why why, model::Changes& changes);

  std::size_t size() const { return known_.size(); }
  // Number of objects in `objects` or in this set.
  std::size_t count_with(const KnownObjects& objects) const;

 private:
  api::ObjectKind kind_;
  std::map<api::NamespacedName, std::string> known_;
  std::map<api::NamespacedName, std::string> listed_;
};

}  // namespace ipvsproxier::watch
