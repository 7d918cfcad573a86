#include "proxier/manifests/manifest_follower.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "proxier/api/visible_text.h"
#include "proxier/manifests/file_stamp.h"
#include "proxier/manifests/manifest_source.h"
#include "proxier/manifests/path_watcher.h"

namespace ipvsproxier::manifests {

struct ManifestFollower::State {
  std::string path;
  std::string node_name;
  PathWatcher watcher;
  ManifestSet set;
  PathNews news;  // since the last successful listing and reading
  api::Problems listing_problems;
  std::vector<std::string> files;    // of the last listing
  std::set<std::string> unreadable;  // files
  struct Stamps {
    FileStamp read;  // before the last reading
    FileStamp seen;  // at the last look
  };
  FileStamp path_stamp;  // before the last listing
  std::map<std::string, Stamps> stamps;
  std::size_t next_look = 0;  // place in `files`
  bool was_listed = false;

  State(std::string where, std::string node)
      : path(where), node_name(std::move(node)), watcher(std::move(where)) {}

  void take_news();
  bool must_list() const;
  void list();
  void read();
  bool look_at_path();
  bool look_at(const std::string& file);
};

void ManifestFollower::State::take_news() {
  auto more = watcher.take_news();
  news.everything |= more.everything;
  news.entries |= more.entries;
  news.contents.merge(more.contents);
}

bool ManifestFollower::State::must_list() const {
  if (news.everything || news.entries || !listing_problems.empty()) return true;
  return std::any_of(news.contents.begin(), news.contents.end(), [this](const auto& file) {
    return !std::binary_search(files.begin(), files.end(), file);
  });
}

// A PATH that cannot be listed, or is empty, removes no objects.
void ManifestFollower::State::list() {
  listing_problems.clear();
  path_stamp = stamp_of(path);
  auto found = list_manifest_files(path, listing_problems);
  if (!listing_problems.empty()) return;
  was_listed = true;
  files = std::move(found);
  const std::set<std::string> present(files.begin(), files.end());
  for (const auto& file : set.paths()) {
    if (present.contains(file)) continue;
    set.remove(file);
    unreadable.erase(file);
    stamps.erase(file);
    watcher.forget_entry(file);
  }
}

void ManifestFollower::State::read() {
  for (const auto& file : files) {
    if (watcher.is_being_written(file)) continue;
    if (!news.everything && !news.contents.contains(file) && set.has(file) &&
        !unreadable.contains(file))
      continue;
    watcher.follow_entry(file);
    stamps[file].read = stamp_of(file);
    auto reading = read_manifest_file(file, node_name);
    if (reading.unreadable)
      unreadable.insert(file);
    else
      unreadable.erase(file);
    set.put(std::move(reading));
  }
  news = PathNews{.everything = false, .entries = false, .contents = {}};
}

bool ManifestFollower::State::look_at_path() {
  const auto now = stamp_of(path);
  const bool is_file = !files.empty() && files.front() == path;  // of which look_at() tells more
  if (is_file ? now.is_same_file(path_stamp) : now == path_stamp) return false;
  news.entries = true;
  news.everything |= !now.is_same_file(path_stamp);
  return true;
}

// Its writer may not be done, so a change counts once two looks found the same.
bool ManifestFollower::State::look_at(const std::string& file) {
  if (watcher.is_being_written(file)) return false;
  auto& [read, seen] = stamps[file];
  const auto now = stamp_of(file);
  if (now == read || now != std::exchange(seen, now)) return false;
  news.contents.insert(file);
  news.entries |= !now.exists;
  return true;
}

ManifestFollower::ManifestFollower(std::string path, std::string node_name)
    : state_(std::make_unique<State>(std::move(path), std::move(node_name))) {
  state_->watcher.follow_path();
}

ManifestFollower::~ManifestFollower() = default;

int ManifestFollower::fd() const {
  return state_->watcher.fd();
}

bool ManifestFollower::take_events() {
  return state_->watcher.take_events();
}

std::size_t ManifestFollower::looks() const {
  const auto all = std::max<std::size_t>(state_->files.size(), 1);
  return (all + kFilesALook - 1) / kFilesALook;
}

bool ManifestFollower::look() {
  auto& state = *state_;
  if (state.next_look >= state.files.size()) state.next_look = 0;
  bool is_news = state.next_look == 0 && state.look_at_path();
  const auto end = std::min(state.files.size(), state.next_look + kFilesALook);
  for (; state.next_look < end; ++state.next_look)
    is_news |= state.look_at(state.files[state.next_look]);
  return is_news;
}

ManifestUpdate ManifestFollower::update() {
  auto& state = *state_;
  state.take_news();
  const bool was_unlisted = !state.listing_problems.empty();
  if (state.news.everything) state.watcher.follow_path();
  if (state.must_list()) state.list();
  const bool is_listed = state.listing_problems.empty();
  if (is_listed) state.read();

  auto others = state.listing_problems;
  if (!state.watcher.failure().empty())
    others.push_back(api::Problem{.severity = api::Severity::error,
                                  .origin = state.path,
                                  .message = state.watcher.failure()});
  bool has_unread = false;
  for (const auto& file : state.files) has_unread |= !state.set.has(file);
  const bool is_void = is_listed && !has_unread && !state.set.has_documents();
  if (is_void)
    others.push_back(
        api::Problem{.origin = state.path, .message = "holds no objects, not even a list"});
  auto update = state.set.take_update(others);
  if (was_unlisted && is_listed) update.mended.push_back(state.path);
  update.try_again = !is_listed || !state.unreadable.empty();
  if (!state.was_listed || has_unread || is_void) update.changes.complete = false;
  if (!is_listed || has_unread || is_void)
    update.held.push_back(
        fmt::format("{}: nothing is removed from the kernel until all of it can be read, and holds "
                    "an object or a list",
                    api::visible(state.path)));
  return update;
}

}  // namespace ipvsproxier::manifests
