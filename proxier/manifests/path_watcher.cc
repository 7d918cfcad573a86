#include "proxier/manifests/path_watcher.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "proxier/manifests/manifest_source.h"

namespace ipvsproxier::manifests {

namespace {

namespace fs = std::filesystem;

// For a folder on the way: events that may replace a step. IN_ATTRIB: permissions may change.
constexpr std::uint32_t kStepEvents =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR;
// For a folder with manifest files. IN_MODIFY tells that a writer is active.
constexpr std::uint32_t kContentEvents = kStepEvents | IN_MODIFY | IN_CLOSE_WRITE;

constexpr int kMostLinks = 40;  // as in the kernel (path_resolution(7))
constexpr int kMostRounds = 10;

std::deque<std::string> parts_of(const std::string& path) {
  std::deque<std::string> parts;
  for (const auto& part : fs::path(path))
    if (const auto& name = part.native(); !name.empty() && name != "/" && name != ".")
      parts.push_back(name);
  return parts;
}

std::string join(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).native();
}

// A new empty file is about to be written; a link, or a file that was written before it got its
// name, is not.
bool is_awaiting_content(const std::string& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
         status.st_size == 0;
}

}  // namespace

PathWatcher::PathWatcher(std::string path)
    : path_(std::move(path)), fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (fd_) return;
  failure_ = fmt::format("cannot be followed, changes are noticed only every ipvs.syncPeriod: {}{}",
                         std::generic_category().message(errno),
                         errno == EMFILE ? " (see fs.inotify.max_user_instances)" : "");
}

// `folder` is a real path without links.
PathWatcher::Trail PathWatcher::resolve(const std::string& folder, const std::string& rest) {
  Trail trail;
  auto parts = parts_of(rest);
  std::string here = folder;
  int links = 0;
  while (!parts.empty()) {
    const auto name = parts.front();
    parts.pop_front();
    if (name == "..") {
      here = fs::path(here).parent_path().native();
      continue;
    }
    trail.steps.push_back({here, name});
    const auto there = join(here, name);
    std::error_code error;
    const auto type = fs::symlink_status(there, error).type();
    if (type == fs::file_type::symlink) {
      const auto target = fs::read_symlink(there, error);
      if (error || ++links > kMostLinks) return trail;
      if (target.is_absolute()) here.assign(1, '/');  // assigning "/" makes g++ 12 warn wrongly
      const auto more = parts_of(target.native());
      parts.insert(parts.begin(), more.begin(), more.end());
    } else if (type == fs::file_type::directory) {
      here = there;
    } else {
      if (type == fs::file_type::regular && parts.empty()) trail.end = there;
      return trail;
    }
  }
  trail.end = here;
  trail.ends_in_folder = true;
  return trail;
}

int PathWatcher::watch_folder(const std::string& folder, bool with_contents) {
  const auto mask = with_contents ? kContentEvents : kStepEvents;
  const int descriptor = ::inotify_add_watch(fd_.get(), folder.c_str(), mask | IN_MASK_ADD);
  if (descriptor >= 0) {
    watched_[descriptor].folder = folder;
    ++watched_[descriptor].uses;
  } else if (errno != ENOENT && errno != ENOTDIR) {  // an absent folder will cause an event
    failure_ = fmt::format(
        "cannot be followed wholly, some changes are noticed only every ipvs.syncPeriod: {}: {}{}",
        folder, std::generic_category().message(errno),
        errno == ENOSPC ? " (see fs.inotify.max_user_watches)" : "");
  }
  return descriptor;
}

void PathWatcher::unwatch_folder(int descriptor) {
  const auto found = watched_.find(descriptor);
  if (found == watched_.end() || --found->second.uses > 0) return;
  watched_.erase(found);
  ::inotify_rm_watch(fd_.get(),
                     descriptor);  // fails if the folder, and with it the watch, is gone
}

PathWatcher::Places PathWatcher::watch_trail(const Trail& trail) {
  Places places;
  for (std::size_t i = 0; i < trail.steps.size(); ++i) {
    // A folder's contents are not reported by the folder above it.
    const bool is_last = i + 1 == trail.steps.size() && !trail.ends_in_folder;
    const auto& step = trail.steps[i];
    const int descriptor = watch_folder(step.folder, is_last);
    if (descriptor < 0) continue;
    const auto [place, is_new] = places.emplace(Place{descriptor, step.name}, is_last);
    if (is_new) continue;
    place->second |= is_last;  // a trail may pass one place twice
    unwatch_folder(descriptor);
  }
  return places;
}

// Releases the old places last, so that shared folders stay watched.
void PathWatcher::set_places(const std::string& file, Places fresh) {
  for (const auto& [place, is_last] : fresh) followers_[place][file] = is_last;
  for (const auto& [place, is_last] : places_[file]) {
    const auto found = followers_.find(place);
    if (!fresh.contains(place) && found != followers_.end()) {
      found->second.erase(file);
      if (found->second.empty()) followers_.erase(found);
    }
    unwatch_folder(place.first);
  }
  places_[file] = std::move(fresh);
  if (places_[file].empty()) places_.erase(file);
}

// A step may be replaced before its folder is watched: repeat until two resolutions agree.
void PathWatcher::follow_trail(const std::string& file, const std::string& folder,
                               const std::string& rest) {
  auto trail = resolve(folder, rest);
  for (int round = 0; round < kMostRounds; ++round) {
    set_places(file, watch_trail(trail));
    if (file.empty()) {
      const int old = folder_descriptor_;
      folder_ = trail.ends_in_folder ? trail.end : "";
      folder_descriptor_ = trail.ends_in_folder ? watch_folder(folder_, true) : -1;
      // No more events come for files that were being written in the old folder.
      if (old != folder_descriptor_) written_.clear();
      if (old >= 0) unwatch_folder(old);
    }
    auto now = resolve(folder, rest);
    if (now == trail) return;
    trail = std::move(now);
  }
}

void PathWatcher::follow_path() {
  if (!fd_) return;
  failure_.clear();
  std::error_code ignored;  // without a current folder, a relative PATH leads nowhere
  follow_trail("", "/", fs::absolute(path_, ignored).native());
}

void PathWatcher::follow_entry(const std::string& file) {
  if (!fd_ || folder_descriptor_ < 0) return;
  const auto name = fs::path(file).filename().native();
  // The folder is watched already; only a link leads elsewhere.
  std::error_code error;
  if (fs::symlink_status(join(folder_, name), error).type() == fs::file_type::symlink)
    follow_trail(file, folder_, name);
  else
    set_places(file, {});
}

void PathWatcher::forget_entry(const std::string& file) {
  set_places(file, {});
  written_.erase(file);
}

bool PathWatcher::take_events() {
  alignas(inotify_event) std::array<char, 65536> buffer{};
  for (;;) {
    const auto size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return has_news();
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      at += sizeof event;
      // The name is padded with zeros; it is absent for the folder itself.
      const std::string name =
          event.len > 0 ? std::string(buffer.data() + at, ::strnlen(buffer.data() + at, event.len))
                        : std::string();
      at += event.len;
      note(event.wd, event.mask, name);
    }
  }
}

void PathWatcher::note(int descriptor, std::uint32_t mask, const std::string& name) {
  if ((mask & IN_Q_OVERFLOW) != 0) {
    news_.everything = true;
    written_.clear();  // their IN_CLOSE_WRITE may be lost
    return;
  }
  // IN_IGNORED needs no action: the removal of the folder was an event of the folder above, or
  // IN_UNMOUNT.
  const auto watched = watched_.find(descriptor);
  if ((mask & IN_IGNORED) != 0 || watched == watched_.end()) return;
  if (name.empty()) {
    news_.everything = true;
    return;
  }
  const bool is_entry = descriptor == folder_descriptor_ && is_manifest_name(name);
  const auto followers = followers_.find({descriptor, name});
  if (!is_entry && followers == followers_.end()) return;

  const bool is_begun =
      (mask & IN_CREATE) != 0 && is_awaiting_content(join(watched->second.folder, name));
  if (is_entry) note_entry(join(path_, name), mask, is_begun);
  if (followers == followers_.end()) return;
  for (const auto& [file, is_last] : followers->second) {
    const auto& of = file.empty() ? path_ : file;
    const bool is_content = (mask & (IN_MODIFY | IN_CLOSE_WRITE)) != 0;
    if (is_content && !is_last) continue;
    if (is_last && is_begun)
      written_.insert(of);
    else
      note_content(of, mask);
    if (file.empty() && !is_content && !is_begun) news_.everything = true;
  }
}

// An event of a file in the folder PATH.
void PathWatcher::note_entry(const std::string& file, std::uint32_t mask, bool is_begun) {
  if (is_begun) {
    written_.insert(file);
    return;
  }
  if ((mask & (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)) != 0) news_.entries = true;
  note_content(file, mask);
}

void PathWatcher::note_content(const std::string& file, std::uint32_t mask) {
  if ((mask & IN_MODIFY) != 0) {
    written_.insert(file);
    return;
  }
  // Permissions may change during a write.
  if ((mask & IN_ATTRIB) == 0) written_.erase(file);
  news_.contents.insert(file);
}

bool PathWatcher::has_news() const {
  return news_.everything || news_.entries ||
         std::any_of(news_.contents.begin(), news_.contents.end(),
                     [this](const auto& file) { return !is_being_written(file); });
}

PathNews PathWatcher::take_news() {
  PathNews none{.everything = false, .entries = false, .contents = {}};
  for (const auto& file : news_.contents)
    if (is_being_written(file)) none.contents.insert(file);
  auto news = std::exchange(news_, std::move(none));
  std::erase_if(news.contents, [this](const auto& file) { return is_being_written(file); });
  return news;
}

}  // namespace ipvsproxier::manifests
