#include "proxier/watch/known_objects.h"

#include <utility>

#include "proxier/watch/fingerprint.h"
#include "proxier/watch/resource_version.h"

namespace ipvsproxier::watch {

namespace {

// Deletions are remembered to recognize late events, which servers should not send; bookmarks, once
// a minute, clear them.
constexpr std::size_t kMostDeletions = 4096;

}  // namespace

void KnownObjects::begin_list() {
  listed_.clear();
  lists_unnamed_ = false;
}

void KnownObjects::list(const Name& name, std::string_view version, api::Object object) {
  const auto [entry, fresh] = listed_.try_emplace(name);
  auto& listed = entry->second;
  if (!fresh && is_old(version, listed.known.version)) return;
  listed = Listed{.known = {std::string(version), fingerprint(object)}};
  const auto before = known_.find(name);
  if (before == known_.end() || before->second.fingerprint != listed.known.fingerprint)
    listed.changed = std::move(object);
}

void KnownObjects::list_unreadable(const Name& name) {
  const auto before = known_.find(name);
  // If an earlier event of this list was readable, that is the last good state. The version is
  // unknown: the earlier one may belong to a store that no longer exists.
  if (before != known_.end())
    listed_.try_emplace(name, Listed{.known = {.fingerprint = before->second.fingerprint}});
}

void KnownObjects::list_deleted(const Name& name, std::string_view version) {
  auto& listed = listed_[name];
  if (is_old(version, listed.known.version) && version != listed.known.version) return;
  listed = Listed{.known = {.version = std::string(version)}, .is_there = false};
}

void KnownObjects::list_unnamed() {
  lists_unnamed_ = true;
}

bool KnownObjects::is_missing(const Name& name) const {
  const auto listed = listed_.find(name);
  return listed == listed_.end() ? !lists_unnamed_ : !listed->second.is_there;
}

std::set<api::NamespacedName> KnownObjects::missing() const {
  std::set<Name> names;
  for (const auto& [name, known] : known_)
    if (is_missing(name)) names.insert(names.end(), name);
  return names;
}

KnownObjects::Difference KnownObjects::end_list(std::string_view version,
                                                const std::set<Name>& kept,
                                                model::Changes& changes) {
  Difference difference;
  for (auto entry = known_.begin(); entry != known_.end();) {
    const bool is_gone = is_missing(entry->first) && !kept.contains(entry->first);
    if (is_gone) {
      changes.remove({kind_, entry->first});
      ++difference.gone;
    }
    entry->second.version.clear();  // see list_unreadable()
    entry = is_gone ? known_.erase(entry) : std::next(entry);
  }
  // One by one: the memory of the list's entries is reused for the changes.
  for (auto entry = listed_.begin(); entry != listed_.end(); entry = listed_.erase(entry)) {
    auto& [name, listed] = *entry;
    if (!listed.is_there) continue;
    if (listed.changed) {
      changes.put(*std::move(listed.changed));
      ++difference.changed;
    }
    known_[name] = std::move(listed.known);
  }
  begin_list();
  version_ = version;
  covered_.clear();
  cover(version);
  return difference;
}

// A known version is outdated as well: the object has not changed since.
bool KnownObjects::is_stale(const Name& name, std::string_view version) const {
  if (is_old(version, covered_)) return true;
  if (const auto known = known_.find(name); known != known_.end())
    return is_old(version, known->second.version);
  const auto deletion = deletions_.find(name);
  return deletion != deletions_.end() && is_old(version, deletion->second);
}

bool KnownObjects::put(const Name& name, std::string_view version, api::Object object,
                       model::Changes& changes) {
  advance(version);
  if (is_stale(name, version)) return false;
  deletions_.erase(name);
  const auto print = fingerprint(object);
  const auto [entry, fresh] = known_.try_emplace(name);
  const bool is_same = !fresh && entry->second.fingerprint == print;
  entry->second = Known{.version = std::string(version), .fingerprint = print};
  if (!is_same) changes.put(std::move(object));
  return true;
}

// Old servers gave a deletion the version of the object's last state.
bool KnownObjects::remove(const Name& name, std::string_view version, model::Changes& changes) {
  advance(version);
  const auto known = known_.find(name);
  const bool ends_known_state = known != known_.end() && known->second.version == version;
  if (is_stale(name, version) && !ends_known_state) return false;
  if (deletions_.size() >= kMostDeletions) deletions_.clear();
  deletions_[name] = version;
  if (known == known_.end()) return true;
  known_.erase(known);
  changes.remove({kind_, name});
  return true;
}

bool KnownObjects::keep(const Name& name, std::string_view version) {
  advance(version);
  if (is_stale(name, version)) return false;
  deletions_.erase(name);
  if (const auto known = known_.find(name); known != known_.end() && !version.empty())
    known->second.version = version;
  return true;
}

void KnownObjects::advance(std::string_view version) {
  if (!version.empty() && !is_old(version, version_)) version_ = version;
}

bool KnownObjects::bookmark(std::string_view version) {
  const auto order = compare_versions(version, version_);
  if (order && *order < 0) return false;
  advance(version);
  cover(version);
  return true;
}

void KnownObjects::cover(std::string_view version) {
  covered_ = version;
  deletions_.clear();
}

}  // namespace ipvsproxier::watch
