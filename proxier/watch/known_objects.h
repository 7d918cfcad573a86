#pragma once

// KnownObjects: the reported objects of one resource, and the changes that a list or an event makes
// to them. Pure: no transport, no clock. One thread at a time.
//
// The objects themselves are kept by the receiver of the changes. This class keeps a name, a
// resource version and a fingerprint for each, and during a list those of its objects that differ
// from the reported state.
//
// Outdated news is recognized, so events may come twice or out of order: by the version of the
// object, of its deletion, or of a list or bookmark that covers everything before it. This needs
// comparable versions (resource_version.h); other versions are taken as they come.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "proxier/api/names.h"
#include "proxier/api/objects.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::watch {

class KnownObjects {
 public:
  // Numbers of objects.
  struct Difference {
    std::size_t changed = 0;  // or new
    std::size_t gone = 0;
  };

  explicit KnownObjects(api::ObjectKind kind) : kind_(kind) {}

  // --- Lists. A list takes effect at its end; a new begin_list() discards an unfinished list.
  void begin_list();
  void list(const api::NamespacedName& name, std::string_view version, api::Object object);
  // The object is in the list but unreadable: it keeps its last state.
  void list_unreadable(const api::NamespacedName& name);
  // The object was deleted while the list was read.
  void list_deleted(const api::NamespacedName& name, std::string_view version);
  // An object without a readable name is in the list, so no missing object counts as deleted.
  void list_unnamed();
  // The known objects that the complete list lacks.
  std::set<api::NamespacedName> missing() const;
  bool is_missing(const api::NamespacedName& name) const;  // whether the list lacks it
  // The list is complete as of `version`: adds the differences to `changes`, and counts them. Of
  // the missing objects those in `kept` stay unchanged.
  Difference end_list(std::string_view version, const std::set<api::NamespacedName>& kept,
                      model::Changes& changes);

  // --- Events of a watch that started at version(). False: outdated news.
  bool put(const api::NamespacedName& name, std::string_view version, api::Object object,
           model::Changes& changes);
  bool remove(const api::NamespacedName& name, std::string_view version, model::Changes& changes);
  // The object has changed but is unreadable: it keeps its last state.
  bool keep(const api::NamespacedName& name, std::string_view version);
  // An event with this version was seen.
  void advance(std::string_view version);
  // All events up to `version` were seen. False: the server is behind an earlier answer.
  bool bookmark(std::string_view version);

  // The version from which a watch continues; "" before the first list.
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

  api::ObjectKind kind_;
  std::map<Name, Known> known_;
  std::string version_;
  std::string covered_;                    // news up to this version is outdated
  std::map<Name, std::string> deletions_;  // deletions after it

  std::map<Name, Listed> listed_;
  bool lists_unnamed_ = false;
};

}  // namespace ipvsproxier::watch
