#pragma once

// ManifestSet: what the readings of many manifest files amount to while the files change one by
// one. Pure: no files, no clock. One thread at a time. Putting a file costs what that file holds.
//
// Of two objects of one kind and name that of the file first in byte order counts; when that one
// goes, the other appears. A file whose reading has an error, or no document although it had some,
// is broken: it keeps the last good state of every object that is not in the new reading.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/api/decode.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/watch/manifest_source.h"

namespace ipvsproxier::watch {

using api::ObjectKey;

ObjectKey key_of(const api::Object& object);

using DeletedObject = ObjectKey;

struct ManifestUpdate {
  std::vector<api::Object> changed;  // new, or not equal to what was answered before
  std::vector<DeletedObject> deleted;
  api::Problems problems;           // those that the last update did not have, sorted
  std::vector<std::string> mended;  // files that were broken at the last update and are not now
  // False while there is a file that could never be read whole: other objects may exist.
  bool complete = true;
  // Something could not be read, of which there may be no news: to be tried again after a while.
  bool try_again = false;
};

class ManifestSet {
 public:
  void put(ManifestFile reading);
  // Of a file that is not there (any more).
  void remove(const std::string& path);

  bool has(const std::string& path) const { return files_.contains(path); }
  std::vector<std::string> paths() const;
  // Whether any file ever had a document, or may have: it is broken.
  bool has_documents() const;

  // The difference to the last call. `others`: problems that no reading has.
  ManifestUpdate take_update(const api::Problems& others);

 private:
  struct File {
    std::map<ObjectKey, api::Object> objects;
    api::Problems problems;
    bool is_broken = false;
    bool was_good = false;
    bool had_documents = false;
  };

  const api::Object* find(const ObjectKey& key) const;
  void replace_objects(const std::string& path, File& file,
                       std::map<ObjectKey, api::Object> objects);
  void note_before(const ObjectKey& key);
  std::set<api::Problem> problems() const;

  std::map<std::string, File> files_;
  std::map<ObjectKey, std::set<std::string>> holders_;      // paths; the first one's object counts
  std::set<ObjectKey> contested_;                           // those with several holders
  std::map<ObjectKey, std::optional<api::Object>> before_;  // as last answered; touched since
  std::set<api::Problem> told_;
  std::set<std::string> broken_before_;
};

}  // namespace ipvsproxier::watch
