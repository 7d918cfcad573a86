#pragma once

// ManifestFollower: the objects of --manifests PATH (manifest_source.h) as they change, followed
// with inotify, and by looking at them from time to time. Main thread only; not thread-safe. Plain
// file I/O on the caller's thread. Does not log: problems are returned.
//
// It notices edits in place (when the writer closes the file), new, renamed and deleted files,
// files replaced by a rename, and swapped links as in a mounted ConfigMap (..data), also if PATH
// itself or a file in it is such a link. Only changed files are read again. What inotify does not
// report (path_watcher.h) is found by look(), if the size, a time or the identity of a file
// differs.
//
// An unreadable file never removes objects. An object that does not decode keeps its last good
// state. A file that breaks (unreadable, invalid YAML, an object without a name, no document any
// more) keeps the last good state of every object that is not in its new reading; a folder that is
// gone or holds no manifest keeps all objects. The objects of a deleted file are removed. After a
// failure of the system (EMFILE, EIO, a missing mount) the next update() reads again, and try_again
// asks for it.

#include <cstddef>
#include <memory>
#include <string>

#include "proxier/manifests/manifest_set.h"

namespace ipvsproxier::manifests {

class ManifestFollower {
 public:
  // Starts to follow, reads nothing yet. A failure of inotify (EMFILE: the limit
  // fs.inotify.max_user_instances) becomes one problem, and nothing is followed.
  ManifestFollower(std::string path, std::string node_name);
  ManifestFollower(const ManifestFollower&) = delete;
  ManifestFollower& operator=(const ManifestFollower&) = delete;
  ~ManifestFollower();

  int fd() const;  // readable after a possible change; -1: not following

  // Records events without reading files. True if update() may find changes. Call it when fd() is
  // readable, and wait a little (50 ms) before update(), because editors write twice.
  bool take_events();

  // Files that one look() asks about, so that a large folder delays nothing else.
  static constexpr std::size_t kFilesALook = 256;

  // Compares what the system tells of PATH and of the next files (their identity, size and times)
  // with what it told when they were read. Reads no file. True if update() may find changes; a file
  // that was changed in place counts when a second look finds the same.
  bool look();
  // So many calls of look() ask about all files.
  std::size_t looks() const;

  // Reads the files that changed since the last call (first call: all) and returns the difference.
  ManifestUpdate update();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::manifests
