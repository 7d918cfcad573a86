#include "test/support/api_server/running_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "test/support/api_server/documents.h"

namespace ipvsproxier::test {
namespace {

// What an event says beside the object: its type, and kind and version of the API.
constexpr std::size_t kAroundObject = 100;

}  // namespace

// Where it ends can still be told.
std::string malformed(std::string text) {
  if (text.size() > 4) text.insert(text.size() / 2, "\x01");
  return text;
}

RunningWatch::RunningWatch(Wanted wanted, const Store& store)
    : wanted_(std::move(wanted)),
      seen_(wanted_.from),
      next_bookmark_(Clock::now() + wanted_.bookmark_every) {
  if (!wanted_.initial_events) return;
  const auto& facts = facts_of(wanted_.resource);
  seen_ = store.version();
  // Of a hundred thousand objects, growing would take as much again.
  std::size_t size = 0;
  store.visit_at(seen_, wanted_.resource, "", [&](const Store::Key&, const StoredObject& object) {
    size += object.text.size() + kAroundObject;
    return true;
  });
  pending_.reserve(size);
  store.visit_at(seen_, wanted_.resource, "", [&](const Store::Key&, const StoredObject& object) {
    if (matches(object)) pending_ += event_line(ChangeType::added, facts, object);
    return true;
  });
  if (wanted_.initial_end) pending_ += bookmark_line(facts, seen_, true);
}

bool RunningWatch::matches(const StoredObject& object) const {
  return wanted_.labels.matches(object.attributes) && wanted_.fields.matches(object.attributes);
}

std::string RunningWatch::line_of(const Change& change) const {
  const auto& facts = facts_of(wanted_.resource);
  const bool before = change.before && matches(*change.before);
  const bool after = change.type != ChangeType::deleted && matches(change.object);
  if (after)
    return event_line(before ? ChangeType::modified : ChangeType::added, facts, change.object);
  if (!before) return "";
  // One that no longer matches leaves as it was when it did.
  return event_line(ChangeType::deleted, facts, Store::at_version(*change.before, change.version));
}

void RunningWatch::pull_changes(const Store& store, const Faults& faults) {
  std::vector<std::string> lines;
  store.visit_changes(seen_, wanted_.resource, [&](const Change& change) {
    seen_ = change.version;
    auto line = line_of(change);
    if (line.empty()) return true;
    if (faults.malformed) line = malformed(std::move(line));
    if (faults.duplicate) lines.push_back(line);
    lines.push_back(std::move(line));
    return true;
  });
  if (faults.reorder) std::reverse(lines.begin(), lines.end());
  for (const auto& line : lines) pending_ += line;
}

void RunningWatch::pull(const Store& store, const Faults& faults, Clock::time_point now) {
  if (ended_) return;
  if (!faults.bookmarks_only) pull_changes(store, faults);
  if (wanted_.bookmarks && now >= next_bookmark_) bookmark(store, faults);
  if (wanted_.deadline && now >= *wanted_.deadline) ended_ = true;
}

void RunningWatch::bookmark(const Store& store, const Faults& faults) {
  next_bookmark_ = Clock::now() + wanted_.bookmark_every;
  if (ended_ || !wanted_.bookmarks) return;
  // Never a version that would skip what is held back.
  bool held = false;
  if (faults.bookmarks_only)
    store.visit_changes(seen_, wanted_.resource, [&](const Change& change) {
      held = !line_of(change).empty();
      if (!held) seen_ = change.version;
      return !held;
    });
  else
    pull_changes(store, faults);
  if (!held) seen_ = std::max(seen_, store.version());
  pending_ += bookmark_line(facts_of(wanted_.resource), seen_, false);
}

void RunningWatch::expire(const Store& store) {
  if (ended_) return;
  pending_ += error_line(status_document(
      {.code = 410,
       .reason = "Expired",
       .message = fmt::format("too old resource version: {} ({})", seen_, store.version())}));
  ended_ = true;
}

void RunningWatch::take(std::size_t bytes) {
  taken_ += bytes;
  if (taken_ == pending_.size())
    std::string().swap(pending_);  // an assignment would keep its memory
  else if (taken_ >= (1U << 20U) && taken_ >= pending_.size() / 2)
    pending_.erase(0, taken_);
  else
    return;
  taken_ = 0;
}

RunningWatch::Clock::time_point RunningWatch::next_due() const {
  auto due = wanted_.bookmarks ? next_bookmark_ : Clock::time_point::max();
  return wanted_.deadline ? std::min(due, *wanted_.deadline) : due;
}

}  // namespace ipvsproxier::test
