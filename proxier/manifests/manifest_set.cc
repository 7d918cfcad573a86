#include "proxier/manifests/manifest_set.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::manifests {

namespace {

using api::Problem;
using api::Severity;

const std::string& origin_of(const api::Object& object) {
  return std::visit([](const auto& known) -> const std::string& { return known.origin; }, object);
}

// Later objects of the same name in one file become problems instead of entries.
std::map<ObjectKey, api::Object> by_key(std::vector<api::Object> objects, api::Problems& problems) {
  std::map<ObjectKey, api::Object> map;
  for (auto& object : objects) {
    const auto key = key_of(object);
    const auto found = map.find(key);
    if (found == map.end())
      map.emplace(key, std::move(object));
    else
      problems.push_back(duplicate_problem(object, origin_of(found->second)));
  }
  return map;
}

Problem keeping_problem(const std::string& path, std::size_t kept) {
  const auto what = kept == 1
                        ? std::string("1 object that it held before stays as it was")
                        : fmt::format("{} objects that it held before stay as they were", kept);
  return Problem{.severity = Severity::warning,
                 .origin = path,
                 .message = what + " until the file is mended or deleted"};
}

// Further objects of it may be what the kernel has.
std::string never_read(const std::string& path) {
  return api::visible(path) +
         ": which objects it holds is not known: nothing is removed from the kernel until it is "
         "mended or deleted";
}

}  // namespace

void ManifestSet::put(ManifestFile reading) {
  auto& file = files_[reading.path];
  file.problems = std::move(reading.problems);
  const bool is_emptied = !reading.has_documents && file.had_documents;
  if (is_emptied)
    file.problems.push_back(
        Problem{.origin = reading.path, .message = "holds no object any more, not even a list"});
  file.has_error = api::has_error(file.problems);
  file.is_broken = reading.has_unknown || is_emptied;
  file.was_whole |= !file.is_broken;
  // A text without a readable object may never have been a manifest.
  file.had_documents |= reading.has_documents && (!file.is_broken || !reading.objects.empty());
  file.unreadable = std::move(reading.unreadable_objects);
  file.other_nodes = std::move(reading.other_nodes);

  auto objects = by_key(std::move(reading.objects), file.problems);
  std::size_t kept = 0;
  for (const auto& [key, object] : file.objects)
    if (file.is_broken || file.unreadable.contains(key))
      kept += objects.emplace(key, object).second ? 1 : 0;
  if (kept > 0) file.problems.push_back(keeping_problem(reading.path, kept));
  file.held = !file.was_whole ? never_read(reading.path)
              : kept > 0      ? api::to_string(file.problems.back())
                              : "";
  replace_objects(reading.path, file, std::move(objects));
}

void ManifestSet::remove(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return;
  replace_objects(path, found->second, {});
  files_.erase(found);
}

void ManifestSet::replace_objects(const std::string& path, File& file,
                                  std::map<ObjectKey, api::Object> objects) {
  for (const auto& [key, object] : file.objects) note_before(key);
  for (const auto& [key, object] : objects) note_before(key);
  const auto old = std::exchange(file.objects, std::move(objects));
  const auto recount = [&](const ObjectKey& key, auto&& change) {
    auto& holders = holders_[key];
    change(holders);
    if (holders.size() > 1)
      contested_.insert(key);
    else
      contested_.erase(key);
    if (holders.empty()) holders_.erase(key);
  };
  for (const auto& [key, object] : old)
    if (!file.objects.contains(key)) recount(key, [&](auto& holders) { holders.erase(path); });
  for (const auto& [key, object] : file.objects)
    recount(key, [&](auto& holders) { holders.insert(path); });
}

const api::Object* ManifestSet::find(const ObjectKey& key) const {
  const auto holders = holders_.find(key);
  if (holders == holders_.end()) return nullptr;
  return &files_.at(*holders->second.begin()).objects.at(key);
}

void ManifestSet::note_before(const ObjectKey& key) {
  if (before_.contains(key)) return;
  const auto* object = find(key);
  before_.emplace(key, object != nullptr ? std::optional(*object) : std::nullopt);
}

std::vector<std::string> ManifestSet::paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

bool ManifestSet::has_documents() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto& item) {
    return item.second.had_documents || item.second.is_broken;
  });
}

std::set<Problem> ManifestSet::problems() const {
  std::set<Problem> all;
  for (const auto& [path, file] : files_) all.insert(file.problems.begin(), file.problems.end());
  for (const auto& key : contested_) {
    const auto& holders = holders_.at(key);
    const auto& first = origin_of(*find(key));
    for (auto path = std::next(holders.begin()); path != holders.end(); ++path)
      all.insert(duplicate_problem(files_.at(*path).objects.at(key), first));
  }
  return all;
}

void ManifestSet::tell_unreadable(model::Changes& changes) {
  std::map<ObjectKey, std::string> now;
  for (const auto& [path, file] : files_)
    now.insert(file.unreadable.begin(), file.unreadable.end());
  for (const auto& [key, why] : told_unreadable_)
    if (!now.contains(key)) changes.unreadable[key] = std::nullopt;
  for (const auto& [key, why] : now)
    if (const auto told = told_unreadable_.find(key);
        told == told_unreadable_.end() || told->second != why)
      changes.unreadable[key] = why;
  told_unreadable_ = std::move(now);
}

// Only this node's own Node is an object here.
std::vector<api::Node> ManifestSet::other_nodes() const {
  const auto node = holders_.lower_bound({.kind = api::ObjectKind::node, .name = {}});
  std::vector<api::Node> others;
  if (node != holders_.end() && node->first.kind == api::ObjectKind::node) return others;
  for (const auto& [path, file] : files_)
    others.insert(others.end(), file.other_nodes.begin(), file.other_nodes.end());
  return others;
}

ManifestUpdate ManifestSet::take_update(const api::Problems& others) {
  ManifestUpdate update;
  update.changes.complete = true;
  for (const auto& [key, before] : std::exchange(before_, {})) {
    const auto* now = find(key);
    if (now == nullptr) {
      if (before) update.changes.remove(key);
    } else if (!before || *now != *before) {
      update.changes.put(*now);
    }
  }
  auto all = problems();
  all.insert(others.begin(), others.end());
  std::set_difference(all.begin(), all.end(), told_.begin(), told_.end(),
                      std::back_inserter(update.problems));
  told_ = std::move(all);

  tell_unreadable(update.changes);
  update.other_nodes = other_nodes();
  std::set<std::string> faulty;
  for (const auto& [path, file] : files_) {
    if (file.has_error) faulty.insert(path);
    if (!file.has_error && faulty_before_.contains(path)) update.mended.push_back(path);
    if (!file.held.empty()) update.held.push_back(file.held);
    if (!file.was_whole) update.changes.complete = false;
  }
  faulty_before_ = std::move(faulty);
  return update;
}

}  // namespace ipvsproxier::manifests
