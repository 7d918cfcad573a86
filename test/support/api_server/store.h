#pragma once

// Store: the objects of the test API server with their history. No thread of its own and no lock:
// the server guards it.
//
// An object is kept as the text that a list shows of it (no kind, no apiVersion), its metadata in
// kube-apiserver's order. The store adds what a server adds: uid, resourceVersion, generation (of
// slices), creationTimestamp, and managedFields that name the fields; an object that brings uid,
// creationTimestamp or managedFields keeps its own. Versions count over all resources, as etcd's
// do.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"
#include "test/support/api_server/resources.h"
#include "test/support/api_server/selectors.h"

namespace ipvsproxier::test {

struct StoredObject {
  std::string name_space;
  std::string name;
  std::string text;
  Attributes attributes;  // what selectors look at
  std::uint64_t version = 0;
  std::string uid;
  std::string created;
  std::uint64_t generation = 1;
};

enum class ChangeType : std::uint8_t { added, modified, deleted };

// `object` of a deletion is the object as it was, with the version of the deletion.
struct Change {
  std::uint64_t version = 0;
  Resource resource = Resource::services;
  std::optional<StoredObject> before;
  StoredObject object;
  ChangeType type = ChangeType::added;
};

class Store {
 public:
  // The object with another version in its text.
  static StoredObject at_version(const StoredObject& object, std::uint64_t version);

  using Key = std::string;  // "/namespace/name" or "/name": sorts as etcd's keys

  // JSON of one object or of a List.
  netlink::Status put(std::string_view json);
  // Of one object; in what is stored the text "RAW" is `raw`, whether or not that is JSON.
  netlink::Status put_raw(std::string_view json, std::string_view raw);
  bool remove(Resource resource, std::string_view name, std::string_view name_space);
  void clear(Resource resource);

  std::uint64_t version() const { return version_; }
  // History is forgotten, as by compact().
  void set_version(std::uint64_t version);
  // Forgets what was before: a version of the past is answered with "expired". Counts one on, so
  // that every version that anybody has seen is of the past.
  void compact();
  // Versions from here on are known.
  std::uint64_t compacted() const { return compacted_; }

  const StoredObject* find(Resource resource, std::string_view name,
                           std::string_view name_space) const;
  std::size_t count(Resource resource) const { return objects_[index(resource)].size(); }

  // The objects as they were at `version` (compacted() at least), from key `start` on, in order of
  // key, until `visit` answers false.
  void visit_at(std::uint64_t version, Resource resource, const Key& start,
                const std::function<bool(const Key&, const StoredObject&)>& visit) const;
  // Changes after `version`, oldest first, until `visit` answers false.
  void visit_changes(std::uint64_t version, Resource resource,
                     const std::function<bool(const Change&)>& visit) const;

 private:
  using Objects = std::map<Key, StoredObject>;

  static std::size_t index(Resource resource) { return static_cast<std::size_t>(resource); }
  netlink::Status put_object(const std::string& kind, const nlohmann::ordered_json& object,
                             std::string_view raw = {});
  void record(Change change);

  std::array<Objects, kResources.size()> objects_;
  std::deque<Change> history_;
  std::uint64_t version_ = 200;
  std::uint64_t compacted_ = 200;
  std::uint64_t uids_ = 0;
};

}  // namespace ipvsproxier::test
