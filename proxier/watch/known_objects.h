#pragma once

// KnownObjects: what has been handed over of one resource, and what a list or an event changes of
// it. Pure: no transport, no clock. One thread at a time.
//
// The objects themselves live with who takes the changes. Kept here is a name, a resource version
// and a fingerprint each, and while a list is read those of its objects that are not equal to what
// was handed over before.
//
// Old news are recognised, so that events may come twice or out of order: by the version of the
// object, of its deletion, or, for everything that a list or a bookmark has covered, of that. Only
// where versions can be compared (resource_version.h); others are taken as they come.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "proxier/api/names.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::watch {

// Objects by name as they are now; nullopt: deleted.
using ObjectChanges = std::map<api::NamespacedName, std::optional<api::Object>>;

class KnownObjects {
 public:
  // --- A list. What it says counts when it ends; a new begin_list() forgets what it said so far.
  void begin_list();
  void list(const api::NamespacedName& name, std::string_view version, api::Object object);
  // It is in the list, but nobody can tell how it looks: it stays as it was.
  void list_unreadable(const api::NamespacedName& name);
  // It went while the list was read.
  void list_deleted(const api::NamespacedName& name, std::string_view version);
  // Something without a name is in the list, so what is not in it may exist.
  void list_unnamed();
  // All of the list is there: what was known and is not in it.
  std::set<api::NamespacedName> missing() const;
  bool is_missing(const api::NamespacedName& name) const;  // whether it would be, if known
  // The list is complete as of `version`: adds the difference to `changes`. Of what is missing
  // `kept` stays as it was.
  void end_list(std::string_view version, const std::set<api::NamespacedName>& kept,
                ObjectChanges& changes);

  // --- Events of a watch from version() on. False: it is old news.
  bool put(const api::NamespacedName& name, std::string_view version, api::Object object,
           ObjectChanges& changes);
  bool remove(const api::NamespacedName& name, std::string_view version, ObjectChanges& changes);
  // It has changed, but nobody can tell how it looks: it stays as it was.
  bool keep(const api::NamespacedName& name, std::string_view version);
  // Something of this version has been seen, whatever it was.
  void advance(std::string_view version);
  // All events up to `version` have been seen. False: the server is behind what it said before.
  bool bookmark(std::string_view version);

  // From where a watch continues; "" before the first list.
  const std::string& version() const { return version_; }
  std::size_t size() const { return known_.size(); }
  bool knows(const api::NamespacedName& name) const { return known_.contains(name); }

 private:
  struct Known {
    std::string version;
    std::uint64_t fingerprint = 0;
  };
  struct Listed {
    Known known;
    std::optional<api::Object> changed;
    bool is_there = true;
  };
  using Name = api::NamespacedName;

  bool is_stale(const Name& name, std::string_view version) const;
  void cover(std::string_view version);

  std::map<Name, Known> known_;
  std::string version_;
  std::string covered_;                    // nothing up to this is news
  std::map<Name, std::string> deletions_;  // since then

  std::map<Name, Listed> listed_;
  bool lists_unnamed_ = false;
};

}  // namespace ipvsproxier::watch
