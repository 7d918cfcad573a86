#pragma once

// PathWatcher: which files of --manifests PATH may have changed, by inotify. Handles names and
// links, reads no file. One thread at a time. Not noticed: changes by another host on a shared
// filesystem (NFS, 9p, hostfs), a mount on top of PATH, a change through a memory mapping.
//
// inotify reports changes to the entries of a folder. Therefore the folders of every step that
// leads to PATH, and to each linked file in it, are watched: replacing a step is an event of the
// folder that holds it.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/unique_fd.h"

namespace ipvsproxier::manifests {

// Events since the last take_news().
struct PathNews {
  bool everything = true;          // PATH may lead elsewhere, or events were lost
  bool entries = true;             // files came or went (a new file may be in `contents` only)
  std::set<std::string> contents;  // changed files as PATH/NAME, or PATH if that is the file
};

class PathWatcher {
 public:
  explicit PathWatcher(std::string path);

  int fd() const { return fd_.get(); }
  // Why part of the paths of follow_*() cannot be watched; "": everything is watched.
  const std::string& failure() const { return failure_; }

  // Resolves PATH and watches the result. Call it before reading PATH, so that no change in between
  // is missed.
  void follow_path();
  // The same for a file in the folder PATH.
  void follow_entry(const std::string& file);
  void forget_entry(const std::string& file);

  // Reads the kernel's events. True if take_news() has something.
  bool take_events();
  PathNews take_news();

  // A program has begun to write `file` and has not closed it yet.
  bool is_being_written(const std::string& file) const { return written_.contains(file); }

 private:
  struct Step {
    std::string folder;
    std::string name;

    friend bool operator==(const Step&, const Step&) = default;
  };
  struct Trail {
    std::vector<Step> steps;
    std::string end;  // "" if it leads nowhere
    bool ends_in_folder = false;

    friend bool operator==(const Trail&, const Trail&) = default;
  };
  struct Watched {
    std::string folder;
    int uses = 0;
  };
  using Place = std::pair<int, std::string>;  // watch descriptor, and a name in its folder
  using Places = std::map<Place, bool>;       // value: whether this is the last step, of a file

  static Trail resolve(const std::string& folder, const std::string& rest);
  void follow_trail(const std::string& file, const std::string& folder, const std::string& rest);
  Places watch_trail(const Trail& trail);
  void set_places(const std::string& file, Places fresh);
  int watch_folder(const std::string& folder, bool with_contents);
  void unwatch_folder(int descriptor);
  void note(int descriptor, std::uint32_t mask, const std::string& name);
  void note_entry(const std::string& file, std::uint32_t mask, bool is_begun);
  void note_content(const std::string& file, std::uint32_t mask);
  bool has_news() const;

  std::string path_;
  netlink::UniqueFd fd_;
  std::string failure_;
  PathNews news_;
  std::set<std::string> written_;

  std::map<int, Watched> watched_;  // by watch descriptor
  // Of PATH ("") and of each file in it that is a link.
  std::map<std::string, Places> places_;
  std::map<Place, std::map<std::string, bool>> followers_;  // the inverse map
  int folder_descriptor_ = -1;                              // watch of PATH, if it is a folder
  std::string folder_;                                      // its real path
};

}  // namespace ipvsproxier::manifests
