#include "proxier/api/wire.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/broken_json.h"
#include "proxier/api/decode.h"
#include "proxier/api/fields.h"
#include "proxier/api/json_value.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::api {

namespace {

using netlink::Result;

struct EventRow {
  EventType type;
  std::string_view text;
};

constexpr std::array<EventRow, 5> kEvents = {{
    {EventType::added, "ADDED"},
    {EventType::modified, "MODIFIED"},
    {EventType::deleted, "DELETED"},
    {EventType::bookmark, "BOOKMARK"},
    {EventType::error, "ERROR"},
}};

constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";
constexpr std::string_view kStatusKind = "Status";
constexpr std::size_t kShownBody = 200;

netlink::Error malformed(std::string message) {
  return {.kind = netlink::ErrorKind::malformed, .where = std::move(message)};
}

// Parses the text, repaired if necessary.
Result<JsonDocument> read_document(std::string_view text) {
  auto json = JsonDocument::parse(text);
  if (json) return json;
  auto mended = JsonDocument::parse(mend_json(text));
  return mended ? std::move(mended) : std::move(json);
}

NamespacedName name_of(const Outline& outline, ObjectKind kind) {
  if (kind == ObjectKind::node) return {.ns = "", .name = outline.name};
  return {.ns = outline.ns.empty() ? "default" : outline.ns, .name = outline.name};
}

// The problem of an unreadable object; names the object as far as possible.
Problem unreadable(const NamespacedName& name, ObjectKind kind, const std::string& why) {
  auto object = std::string(to_string(kind));
  if (!name.name.empty()) object += " " + (kind == ObjectKind::node ? name.name : to_string(name));
  return {.origin = "", .object = std::move(object), .field = "", .message = why};
}

using MaybeValue = std::optional<JsonValue>;

MaybeValue member(const MaybeValue& object, std::string_view key) {
  return object ? object->find(key) : std::nullopt;
}

// "" unless the value is text.
std::string text_of(const MaybeValue& value) {
  return std::string(value ? value->text().value_or("") : "");
}

// nullopt unless the value is an integer of at least 0.
std::optional<int> number_of(const MaybeValue& value) {
  const auto number = value ? value->integer() : std::nullopt;
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

std::string resource_version_of(const JsonValue& object) {
  return text_of(member(object.find("metadata"), "resourceVersion"));
}

ApiStatus status_of(const JsonValue& status) {
  return ApiStatus{
      .code = number_of(status.find("code")).value_or(0),
      .reason = text_of(status.find("reason")),
      .message = text_of(status.find("message")),
      .retry_after_seconds = number_of(member(status.find("details"), "retryAfterSeconds"))};
}

// The object if it decodes and has the requested kind.
std::optional<Object> decode_wanted(const JsonValue& json, ObjectKind kind,
                                    std::optional<ObjectKind> implied, Problems& problems) {
  const auto found = find_kind(json, implied);
  if (!found || *found == kind) return decode_object(json, "", problems, implied);
  Report report{.origin = "",
                .problems = problems,
                .describe = [&] { return describe_json(json, implied); },
                .consequence = kObjectLeftOut};
  Fields(json, report).refuse("kind", fmt::format("must be {}", to_string(kind)));
  return std::nullopt;
}

std::optional<EventType> event_type(std::string_view text) {
  const auto* row = std::find_if(kEvents.begin(), kEvents.end(),
                                 [text](const EventRow& known) { return known.text == text; });
  if (row == kEvents.end()) return std::nullopt;
  return row->type;
}

Result<WatchEvent> read_bookmark(const JsonValue& object) {
  WatchEvent event{.type = EventType::bookmark, .resource_version = resource_version_of(object)};
  if (event.resource_version.empty())
    return malformed("a bookmark of the watch has no resourceVersion");
  const auto annotations = member(object.find("metadata"), "annotations");
  event.initial_events_end = text_of(member(annotations, kInitialEventsEnd)) == "true";
  return event;
}

// A body that is no Status, for a log: its beginning on one line.
std::string shown_body(std::string_view body) {
  std::string text;
  for (const char c : head_of(body, kShownBody)) {
    const bool blank = static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
    if (!blank) text += c;
    if (blank && !text.empty() && text.back() != ' ') text += ' ';
  }
  if (body.size() > kShownBody) return text + "...";
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

std::string_view to_string(EventType type) {
  return std::find_if(kEvents.begin(), kEvents.end(),
                      [type](const EventRow& row) { return row.type == type; })
      ->text;
}

Result<WatchEvent> decode_watch_event(std::string_view document, ObjectKind kind) {
  const auto json = read_document(document);
  if (!json) return outline_watch_event(document, kind, "is " + json.error().where);
  const auto type = event_type(text_of(json->root().find("type")));
  if (!type) {
    const auto given = json->root().find("type");
    return malformed(fmt::format("an event of the watch has an unknown type: {}",
                                 given ? show(*given) : "none"));
  }
  const auto object = json->root().find("object");
  if (!object || !object->is_object()) return malformed("an event of the watch has no object");
  if (*type == EventType::bookmark) return read_bookmark(*object);
  WatchEvent event{.type = *type};
  if (*type == EventType::error) {
    event.status = status_of(*object);
    return event;
  }
  event.name = name_of(*object, kind);
  event.resource_version = resource_version_of(*object);
  event.object = decode_wanted(*object, kind, std::nullopt, event.problems);
  return event;
}

Result<WatchEvent> outline_watch_event(std::string_view beginning, ObjectKind kind,
                                       const std::string& why) {
  const auto outline = outline_of_event(beginning);
  const auto type = event_type(outline.event_type);
  if (!type || *type == EventType::bookmark || *type == EventType::error)
    return malformed("an event of the watch " + why);
  WatchEvent event{
      .type = *type, .name = name_of(outline, kind), .resource_version = outline.resource_version};
  event.problems.push_back(unreadable(event.name, kind, why));
  return event;
}

ListItem decode_list_item(std::string_view document, ObjectKind kind) {
  const auto json = read_document(document);
  if (!json) return outline_list_item(document, kind, "is " + json.error().where);
  ListItem item{.name = name_of(json->root(), kind)};
  item.object = decode_wanted(json->root(), kind, kind, item.problems);
  return item;
}

ListItem outline_list_item(std::string_view beginning, ObjectKind kind, const std::string& why) {
  ListItem item{.name = name_of(outline_of_object(beginning), kind)};
  item.problems.push_back(unreadable(item.name, kind, why));
  return item;
}

Result<ListEnvelope> decode_list_envelope(std::string_view document, ObjectKind kind) {
  const auto json = JsonDocument::parse(document);
  if (!json) return malformed("the list is " + json.error().where);
  const auto root = json->root();
  const auto wanted = fmt::format("{}List", to_string(kind));
  if (kind_text(root) != wanted || version_text(root) != api_version_of(kind))
    return malformed(fmt::format("the answer is no {} {} but: {}", api_version_of(kind), wanted,
                                 shown_body(document)));
  // A list without items was cut off on the way: treating it as empty would remove everything.
  const auto items = root.find("items");
  if (!items) return malformed("the list has no items");
  if (!items->is_list() && !items->is_null())
    return malformed(fmt::format("the items of the list are no list but {}", show(*items)));
  ListEnvelope envelope{.resource_version = resource_version_of(root),
                        .continue_token = text_of(member(root.find("metadata"), "continue")),
                        .is_empty = items->is_null() || items->elements().empty()};
  if (envelope.resource_version.empty()) return malformed("the list has no resourceVersion");
  return envelope;
}

ApiStatus decode_status(std::string_view document) {
  const auto json = JsonDocument::parse(document);
  if (json && kind_text(json->root()) == kStatusKind) return status_of(json->root());
  return ApiStatus{.message = shown_body(document)};
}

}  // namespace ipvsproxier::api
