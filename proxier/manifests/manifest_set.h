#pragma once

// ManifestSet: merges the readings of many manifest files while files change one by one. Pure: no
// files, no clock. One thread at a time. Adding a file costs time proportional to its contents.
//
// If several files hold an object of the same kind and name, the file that is first in byte order
// counts; when its object leaves, the next one appears. An object that cannot be read keeps its
// last good state. A file is broken if it may hold objects of which nothing is known, or has no
// document although it had some: it keeps the last good state of every object that is not in the
// new reading.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/api/decode.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/manifests/manifest_source.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::manifests {

using api::ObjectKey;

struct ManifestUpdate {
  // Since the last answer. Changes::complete is always set: false while it was never known of a
  // file which objects it holds, so that further ones may exist.
  model::Changes changes;
  api::Problems problems;  // problems that the last update did not have, sorted
  // Files that had an error at the last update and have none now.
  std::vector<std::string> mended;
  // What is not removed now, and why, one line each.
  std::vector<std::string> held;
  std::vector<api::Node> other_nodes;  // if this node's own is not there
  // Part of the input could not be read and may cause no event: try again after a while.
  bool try_again = false;
};

class ManifestSet {
 public:
  void put(ManifestFile reading);
  // For a file that does not exist (any more).
  void remove(const std::string& path);

  bool has(const std::string& path) const { return files_.contains(path); }
  std::vector<std::string> paths() const;
  // Whether any file has, or may have (it is broken), a document.
  bool has_documents() const;

  // The difference from the last call. `others`: problems that belong to no reading.
  ManifestUpdate take_update(const api::Problems& others);

 private:
  struct File {
    std::map<ObjectKey, api::Object> objects;
    std::map<ObjectKey, std::string> unreadable;  // objects, with the reason
    std::vector<api::Node> other_nodes;
    api::Problems problems;
    std::string held;  // ManifestUpdate::held
    bool has_error = false;
    bool is_broken = false;
    bool was_whole = false;  // it was not broken once
    bool had_documents = false;
  };

  const api::Object* find(const ObjectKey& key) const;
  void replace_objects(const std::string& path, File& file,
                       std::map<ObjectKey, api::Object> objects);
  void note_before(const ObjectKey& key);
  void tell_unreadable(model::Changes& changes);
  std::vector<api::Node> other_nodes() const;
  std::set<api::Problem> problems() const;

  std::map<std::string, File> files_;
  std::map<ObjectKey, std::set<std::string>> holders_;  // paths; the first holder's object counts
  std::set<ObjectKey> contested_;                       // objects with several holders
  // State at the last answer of all objects touched since.
  std::map<ObjectKey, std::optional<api::Object>> before_;
  std::set<api::Problem> told_;
  std::map<ObjectKey, std::string> told_unreadable_;
  std::set<std::string> faulty_before_;
};

}  // namespace ipvsproxier::manifests
