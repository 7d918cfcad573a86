#pragma once

// ManifestFollower: the objects of --manifests PATH (manifest_source.h) as they change, followed
// with inotify. Not thread-safe; the main thread's. Plain file I/O on the caller's thread. Logs
// nothing: problems are returned.
//
// Noticed are edits in place (when the writer closes), new, renamed and deleted files, files
// replaced by a rename, and links that are swapped, as a mounted ConfigMap does it (..data), also
// where PATH itself, or a file in it, is such a link. Only files that changed are read again.
//
// What cannot be read never takes anything away: a file that breaks (unreadable, broken YAML, a
// document that does not decode, no document at all any more) keeps the last good state of every
// object that is not in its new reading; a folder that is gone or holds no manifest keeps all. The
// objects of a file that was deleted go. What the system would not read (EMFILE, EIO, a missing
// mount) is read again by the next update(), which try_again asks for.

#include <memory>
#include <string>

#include "proxier/watch/manifest_set.h"

namespace ipvsproxier::watch {

class ManifestFollower {
 public:
  // Starts to follow, reads nothing yet. An error of inotify (EMFILE: the limit
  // fs.inotify.max_user_instances) is one problem, and nothing is followed then.
  ManifestFollower(std::string path, std::string node_name);
  ManifestFollower(const ManifestFollower&) = delete;
  ManifestFollower& operator=(const ManifestFollower&) = delete;
  ~ManifestFollower();

  int fd() const;  // readable when something may have changed; -1: not following

  // Takes note of what happened, without reading files. True if update() may find something. Call
  // it when fd() is readable; wait a little (50 ms) for more before update(), editors write twice.
  bool take_events();

  // Reads what changed since the last call (the first time: everything) and answers the difference.
  ManifestUpdate update();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::watch
