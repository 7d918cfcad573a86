#include "test/support/api_server/events.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>

namespace ipvsproxier::test {
namespace {

using Json = nlohmann::ordered_json;
using Outcome = EventStore::Outcome;

constexpr std::string_view kGroup = "/apis/events.k8s.io/v1/namespaces/";

// Of an object; "" for one that is not there. The types were checked before.
std::string text_of(const Json& object, const char* key) {
  return object.contains(key) ? object[key].get<std::string>() : std::string();
}

Outcome bad_request(const std::string& what) {
  return {.code = 400, .reason = "BadRequest", .message = what, .body = ""};
}

// metav1.MicroTime is read by the pattern 2006-01-02T15:04:05.000000Z07:00.
bool is_micro_time(const Json& json) {
  constexpr std::string_view kPattern = "0000-00-00T00:00:00.000000";
  if (!json.is_string()) return false;
  const auto text = json.get<std::string>();
  if (text.size() < kPattern.size() + 1) return false;
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kPattern[i] == '0' ? !digit : text[i] != kPattern[i]) return false;
  }
  const auto zone = text.substr(kPattern.size());
  return zone == "Z" || (zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && zone[3] == ':');
}

// "" if every member is known and of its type.
std::string wrong_members(const Json& object, const std::set<std::string>& texts,
                          const std::set<std::string>& others, const std::string& where) {
  if (!object.is_object()) return where + " is no object";
  for (const auto& [key, value] : object.items()) {
    if (texts.contains(key) ? !value.is_string() : !others.contains(key))
      return fmt::format("strict decoding error: field \"{}{}\"", where, key);
  }
  return "";
}

// Whether it can be decoded at all.
std::string malformed_event(const Json& event) {
  auto wrong = wrong_members(event,
                             {"kind", "apiVersion", "reportingController", "reportingInstance",
                              "action", "reason", "note", "type"},
                             {"metadata", "eventTime", "series", "regarding", "related"}, "");
  if (!wrong.empty()) return wrong;
  if (text_of(event, "kind") != "Event" || text_of(event, "apiVersion") != "events.k8s.io/v1")
    return "the object provided is unrecognized: it is no Event of events.k8s.io/v1";
  wrong = wrong_members(event.value("metadata", Json()),
                        {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}, {},
                        "metadata.");
  if (!wrong.empty()) return wrong;
  if (event.contains("regarding"))
    wrong = wrong_members(
        event["regarding"],
        {"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"}, {},
        "regarding.");
  if (!wrong.empty()) return wrong;
  if (event.contains("eventTime") && !is_micro_time(event["eventTime"]))
    return "eventTime is no MicroTime";
  if (!event.contains("series")) return "";
  wrong = wrong_members(event["series"], {}, {"count", "lastObservedTime"}, "series.");
  if (!wrong.empty()) return wrong;
  if (event["series"].contains("count") && !event["series"]["count"].is_number_integer())
    return "series.count is no number";
  if (event["series"].contains("lastObservedTime") &&
      !is_micro_time(event["series"]["lastObservedTime"]))
    return "series.lastObservedTime is no MicroTime";
  return "";
}

bool is_dns_subdomain(const std::string& name) {
  constexpr std::string_view kInside = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return !name.empty() && name.size() <= 253 &&
         name.find_first_not_of(kInside) == std::string::npos && name.find("..") == name.npos &&
         name.find(".-") == name.npos && name.find("-.") == name.npos &&
         name.find_first_of("-.") != 0 && name.find_last_of("-.") != name.size() - 1;
}

// What is wrong with it (kubernetes, pkg/apis/core/validation/events.go); "" for nothing.
std::string invalid_event(const Json& event) {
  std::string wrong;
  const auto check = [&](bool right, const std::string& what) {
    if (!right) wrong += (wrong.empty() ? "" : ", ") + what;
  };
  const auto most = [&](const char* key, std::size_t size, bool required) {
    const auto text = text_of(event, key);
    check(!required || !text.empty(), fmt::format("{}: Required value", key));
    check(text.size() <= size, fmt::format("{}: can have at most {} characters", key, size));
  };
  const auto& metadata = event["metadata"];
  const auto regarding = event.value("regarding", Json::object());
  const auto name_space = text_of(metadata, "namespace");
  check(is_dns_subdomain(text_of(metadata, "name")), "metadata.name: Invalid value");
  check(event.contains("eventTime"), "eventTime: Required value");
  check(!text_of(regarding, "namespace").empty() || name_space == "default" ||
            name_space == "kube-system",
        "involvedObject.namespace: does not match event.namespace");
  most("reportingController", 63, true);
  most("reportingInstance", 128, true);
  most("action", 128, true);
  most("reason", 128, true);
  most("note", 1024, false);
  const auto type = text_of(event, "type");
  check(type == "Normal" || type == "Warning", "type: has invalid value");
  if (event.contains("series")) {
    check(event["series"].value("count", 0) >= 2, "series.count: should be at least 2");
    check(event["series"].contains("lastObservedTime"), "series.lastObservedTime: Required value");
  }
  return wrong;
}

// But for its series nothing of an Event may change.
std::string changed_member(const Json& before, const Json& now) {
  for (const auto* key : {"metadata", "eventTime", "reportingController", "reportingInstance",
                          "action", "reason", "regarding", "related", "note", "type"})
    if (before.value(key, Json()) != now.value(key, Json()))
      return fmt::format("{}: field is immutable", key);
  return "";
}

Outcome invalid(const std::string& name, const std::string& what) {
  return {.code = 422,
          .reason = "Invalid",
          .message = fmt::format("Event \"{}\" is invalid: {}", name, what),
          .body = ""};
}

Outcome unsupported_type(const std::string& type) {
  return {.code = 415,
          .reason = "UnsupportedMediaType",
          .message = "the body of the request was in an unknown format: " + type,
          .body = ""};
}

}  // namespace

EventStore::Outcome EventStore::take(const Sent& request) {
  const auto rest =
      request.path.starts_with(kGroup) ? request.path.substr(kGroup.size()) : std::string();
  const auto slash = rest.find("/events");
  const auto name_space = rest.substr(0, slash);
  const auto after = slash == std::string::npos ? "?" : rest.substr(slash + 7);
  if (request.method == "POST" && after.empty()) return post(request, name_space);
  if (request.method == "PATCH" && after.size() > 1 && after[0] == '/') return patch(request);
  return {.code = 405,
          .reason = "MethodNotAllowed",
          .message = "the server does not allow this method on the requested resource",
          .body = ""};
}

EventStore::Outcome EventStore::post(const Sent& request, const std::string& name_space) {
  if (request.content_type != "application/json") return unsupported_type(request.content_type);
  auto event = Json::parse(request.body, nullptr, false);
  if (!event.is_object()) return bad_request("the object provided is unrecognized");
  if (const auto wrong = malformed_event(event); !wrong.empty()) return bad_request(wrong);
  const auto name = text_of(event["metadata"], "name");
  if (text_of(event["metadata"], "namespace") != name_space)
    return bad_request(
        "the namespace of the provided object does not match the namespace sent on the request");
  if (const auto wrong = invalid_event(event); !wrong.empty()) return invalid(name, wrong);
  const auto path = request.path + "/" + name;
  if (find(path) != nullptr)
    return {.code = 409,
            .reason = "AlreadyExists",
            .message = fmt::format("events.events.k8s.io \"{}\" already exists", name),
            .body = ""};
  kept_.emplace_back(path, Json());
  event["metadata"]["uid"] = fmt::format("{:08x}-0000-4000-8000-000000000000", kept_.size());
  return keep(kept_.back(), std::move(event), 201);
}

EventStore::Outcome EventStore::patch(const Sent& request) {
  constexpr std::array<std::string_view, 2> kMerges = {"application/strategic-merge-patch+json",
                                                       "application/merge-patch+json"};
  // The same for an Event, which has no lists.
  if (std::find(kMerges.begin(), kMerges.end(), request.content_type) == kMerges.end())
    return unsupported_type(request.content_type);
  const auto name = request.path.substr(request.path.rfind('/') + 1);
  auto* const kept = find(request.path);
  if (kept == nullptr)
    return {.code = 404,
            .reason = "NotFound",
            .message = fmt::format("events.events.k8s.io \"{}\" not found", name),
            .body = ""};
  const auto change = Json::parse(request.body, nullptr, false);
  if (!change.is_object()) return bad_request("the patch is no object");
  auto event = kept->second;
  event.merge_patch(change);
  if (const auto wrong = malformed_event(event); !wrong.empty()) return bad_request(wrong);
  auto wrong = changed_member(kept->second, event);
  if (wrong.empty()) wrong = invalid_event(event);
  if (!wrong.empty()) return invalid(name, wrong);
  return keep(*kept, std::move(event), 200);
}

EventStore::Outcome EventStore::keep(Kept& kept, Json event, int code) {
  event["metadata"]["resourceVersion"] = std::to_string(++version_);
  kept.second = std::move(event);
  return {.code = code, .reason = "", .message = "", .body = kept.second.dump()};
}

EventStore::Kept* EventStore::find(const std::string& path) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const auto& kept) { return kept.first == path; });
  return found == kept_.end() ? nullptr : &*found;
}

std::vector<std::string> EventStore::documents() const {
  std::vector<std::string> all;
  for (const auto& [path, event] : kept_) all.push_back(event.dump());
  return all;
}

}  // namespace ipvsproxier::test
