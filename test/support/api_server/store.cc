#include "test/support/api_server/store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "test/support/api_server/dress.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Status;

// More than anything here needs; what is older is compacted as in a real watch cache.
constexpr std::size_t kMaxHistory = 250'000;

Store::Key key_of(std::string_view name_space, std::string_view name) {
  std::string key = name_space.empty() ? "" : "/" + std::string(name_space);
  return key + "/" + std::string(name);
}

std::string list_item_kind(const std::string& kind) {
  return kind.ends_with("List") ? kind.substr(0, kind.size() - 4) : "";
}

}  // namespace

Status Store::put(std::string_view json) {
  const auto document = OrderedJson::parse(json, nullptr, false);
  if (!document.is_object()) return Error{ErrorKind::malformed, 0, "an object that is no JSON"};
  const auto kind_of = [](const OrderedJson& object) {
    const auto found = object.find("kind");
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
  };
  const auto kind = kind_of(document);
  const auto items = document.find("items");
  if (items == document.end() || !items->is_array()) return put_object(kind, document);
  for (const auto& item : *items) {
    const auto own = kind_of(item);
    if (auto done = put_object(own.empty() ? list_item_kind(kind) : own, item); !done) return done;
  }
  return {};
}

Status Store::put_raw(std::string_view json, std::string_view raw) {
  const auto document = OrderedJson::parse(json, nullptr, false);
  if (!document.is_object()) return Error{ErrorKind::malformed, 0, "an object that is no JSON"};
  return put_object(document.value("kind", ""), document, raw);
}

Status Store::put_object(const std::string& kind, const OrderedJson& object, std::string_view raw) {
  const auto resource = resource_of_kind(kind);
  if (!resource) return Error{ErrorKind::unsupported, 0, "put an object of kind '" + kind + "'"};

  auto& objects = objects_[index(*resource)];
  auto fresh = dress(object, *resource, nullptr, version_ + 1, uids_ + 1, false);
  if (!fresh) return fresh.error();
  const auto found = objects.find(key_of(fresh->name_space, fresh->name));
  Change change{.version = version_ + 1, .resource = *resource};
  if (found == objects.end()) {
    ++uids_;
    change.object = *std::move(fresh);
  } else {
    const auto same = dress(object, *resource, &found->second, found->second.version, 0, false);
    if (same && same->text == found->second.text) return {};
    change.before = std::move(found->second);
    auto replaced = dress(object, *resource, &*change.before, version_ + 1, 0, true);
    if (!replaced) return replaced.error();
    change.object = *std::move(replaced);
    change.type = ChangeType::modified;
  }
  constexpr std::string_view kRaw = "\"RAW\"";
  if (const auto at = change.object.text.find(kRaw); !raw.empty() && at != std::string::npos)
    change.object.text.replace(at, kRaw.size(), raw);
  ++version_;
  objects.insert_or_assign(key_of(change.object.name_space, change.object.name), change.object);
  record(std::move(change));
  return {};
}

bool Store::remove(Resource resource, std::string_view name, std::string_view name_space) {
  auto& objects = objects_[index(resource)];
  const auto found = objects.find(key_of(name_space, name));
  if (found == objects.end()) return false;
  Change change{.version = ++version_,
                .resource = resource,
                .before = found->second,
                .object = at_version(found->second, version_),
                .type = ChangeType::deleted};
  objects.erase(found);
  record(std::move(change));
  return true;
}

StoredObject Store::at_version(const StoredObject& object, std::uint64_t version) {
  auto moved = object;
  const auto text = [](std::uint64_t of) { return fmt::format(R"("resourceVersion":"{}")", of); };
  const auto old = text(object.version);
  if (const auto at = moved.text.find(old); at != std::string::npos)
    moved.text.replace(at, old.size(), text(version));
  moved.version = version;
  return moved;
}

void Store::record(Change change) {
  history_.push_back(std::move(change));
  if (history_.size() <= kMaxHistory) return;
  compacted_ = history_.front().version;
  history_.pop_front();
}

void Store::clear(Resource resource) {
  objects_[index(resource)].clear();
  compact();
}

void Store::set_version(std::uint64_t version) {
  version_ = compacted_ = version;
  history_.clear();
}

void Store::compact() {
  set_version(version_ + 1);
}

const StoredObject* Store::find(Resource resource, std::string_view name,
                                std::string_view name_space) const {
  const auto& objects = objects_[index(resource)];
  const auto found = objects.find(key_of(name_space, name));
  return found == objects.end() ? nullptr : &found->second;
}

void Store::visit_at(std::uint64_t version, Resource resource, const Key& start,
                     const std::function<bool(const Key&, const StoredObject&)>& visit) const {
  // What has changed since, as it was.
  std::map<Key, const StoredObject*> then;
  for (auto change = history_.rbegin(); change != history_.rend() && change->version > version;
       ++change)
    if (change->resource == resource)
      then[key_of(change->object.name_space, change->object.name)] =
          change->before ? &*change->before : nullptr;

  const auto& objects = objects_[index(resource)];
  auto now = objects.lower_bound(start);
  auto old = then.lower_bound(start);
  while (now != objects.end() || old != then.end()) {
    const bool use_old = old != then.end() && (now == objects.end() || old->first <= now->first);
    const auto& key = use_old ? old->first : now->first;
    const auto* object = use_old ? old->second : &now->second;
    if (object != nullptr && !visit(key, *object)) return;
    if (use_old && now != objects.end() && now->first == old->first) ++now;
    if (use_old)
      ++old;
    else
      ++now;
  }
}

void Store::visit_changes(std::uint64_t version, Resource resource,
                          const std::function<bool(const Change&)>& visit) const {
  auto change = std::ranges::upper_bound(history_, version, {}, &Change::version);
  for (; change != history_.end(); ++change)
    if (change->resource == resource && !visit(*change)) return;
}

}  // namespace ipvsproxier::test
