#pragma once

// PathWatcher: which of the files that --manifests PATH names may have changed, by inotify. Knows
// names and links, reads no file. One thread at a time. Not noticed: what another host does on a
// shared filesystem, a mount on top of PATH, a change through a memory mapping.
//
// inotify tells of the entries of a folder. Watched are therefore the folders of every step that
// leads to PATH, and to each file in it that is a link: a step that is replaced is an event of the
// folder that holds it.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/unique_fd.h"

namespace ipvsproxier::watch {

// What happened since it was taken last.
struct PathNews {
  bool everything = true;          // PATH may lead elsewhere, or news were lost
  bool entries = true;             // files came or went (one that comes may be in `contents` only)
  std::set<std::string> contents;  // files, as PATH/NAME, or PATH if that is the file
};

class PathWatcher {
 public:
  explicit PathWatcher(std::string path);

  int fd() const { return fd_.get(); }
  // Why some of what follow_*() was told cannot be watched; "": it all can.
  const std::string& failure() const { return failure_; }

  // Finds out where PATH leads now and watches that. Before PATH is read, so that no change between
  // is missed.
  void follow_path();
  // The same for a file in the folder PATH.
  void follow_entry(const std::string& file);
  void forget_entry(const std::string& file);

  // Takes note of what the kernel has to tell. Whether there is anything for take_news().
  bool take_events();
  PathNews take_news();

  // Somebody has begun to write `file` and not closed it yet.
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
  using Place = std::pair<int, std::string>;  // watch descriptor and a name in that folder
  using Places = std::map<Place, bool>;       // whether it is the last step: of a file

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
  // Of each file that a trail leads to, and "" for PATH itself.
  std::map<std::string, Places> places_;
  std::map<Place, std::map<std::string, bool>> followers_;  // the same by place
  int folder_descriptor_ = -1;                              // of PATH, if it is a folder
  std::string folder_;                                      // where it really is
};

}  // namespace ipvsproxier::watch
