#include "proxier/watch/cluster_event.h"

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/timestamp.h"

namespace ipvsproxier::watch {
namespace {

using Json = nlohmann::json;

EventRecord::Time at(const std::string& text) {
  return *api::parse_rfc3339_time(text);
}

EventRecord starting() {
  return {.event = {.regarding = {.kind = "Node", .ns = "", .name = "kp"},
                    .level = EventLevel::normal,
                    .reason = "Starting",
                    .action = "StartKubeProxy"},
          .host = "host-1",
          .name = "kp.18a1",
          .first = at("2026-11-20T22:19:50.000123456Z"),
          .last = at("2026-11-20T22:20:50Z")};
}

TEST_CASE("an Event has what a server asks for and nothing else") {
  CHECK(Json::parse(event_document(starting())) == Json::parse(R"({
    "kind": "Event", "apiVersion": "events.k8s.io/v1",
    "metadata": {"name": "kp.18a1", "namespace": "default"},
    "eventTime": "2026-11-20T22:19:50.000123Z",
    "reportingController": "kube-proxy", "reportingInstance": "kube-proxy-host-1",
    "action": "StartKubeProxy", "reason": "Starting",
    "regarding": {"kind": "Node", "name": "kp", "apiVersion": "v1"},
    "type": "Normal"})"));
}

TEST_CASE("an Event lives in its object's namespace") {
  auto record = starting();
  record.event.regarding = {.kind = "Service", .ns = "shop", .name = "web"};
  record.event.level = EventLevel::warning;
  record.event.note = "port 80";
  const auto json = Json::parse(event_document(record));
  CHECK(json["metadata"]["namespace"] == "shop");
  CHECK(json["regarding"] ==
        Json::parse(R"({"kind":"Service","namespace":"shop","name":"web","apiVersion":"v1"})"));
  CHECK(json["type"] == "Warning");
  CHECK(json["note"] == "port 80");
}

TEST_CASE("a series says how often and when last") {
  auto record = starting();
  record.count = 3;
  const auto series =
      Json::parse(R"({"count": 3, "lastObservedTime": "2026-11-20T22:20:50.000000Z"})");
  CHECK(Json::parse(series_patch(record)) == Json{{"series", series}});
  CHECK(Json::parse(event_document(record))["series"] == series);
}

TEST_CASE("what is too long is cut between characters, what is no text is replaced") {
  auto record = starting();
  record.host = std::string(200, 'h');
  record.event.note = "x";
  while (record.event.note.size() < 2000) record.event.note += "\u00e4";  // two bytes
  auto json = Json::parse(event_document(record));
  CHECK(json["reportingInstance"].get<std::string>().size() == 128);
  CHECK(json["note"].get<std::string>().size() == 1023);

  // Each of them becomes four characters.
  record.event.note = std::string(600, '\xff');
  json = Json::parse(event_document(record));
  CHECK(json["note"].get<std::string>().size() == 1024);
  CHECK(json["note"].get<std::string>().substr(0, 4) == "\\xff");
  record.event.note = "a\x1b[2J\nb";
  CHECK(Json::parse(event_document(record))["note"] == "a\\u001b[2J\\nb");
  record.event.regarding.name = "\xff";
  CHECK(Json::parse(event_document(record))["regarding"]["name"] == "\xef\xbf\xbd");
}

TEST_CASE("an Event is named after its object and the time, if that is a name") {
  const auto now = at("2026-11-20T22:19:50.000000001Z");
  const auto name = [&](const std::string& object, double random = 0) {
    return event_name({.kind = "Node", .ns = "", .name = object}, now, [random] { return random; });
  };
  CHECK(name("kp") == "kp.18e9e0e2860bbc01");
  CHECK(name("a-1.b") == "a-1.b.18e9e0e2860bbc01");
  for (const auto* odd : {"", "KP", "a_b", "-a", "a-", ".a", "a..b", "a.-b", "\xc3\xa4"})
    CHECK(name(odd) == "00000000-0000-4000-8000-000000000000");
  CHECK(name(std::string(236, 'a')) == std::string(236, 'a') + ".18e9e0e2860bbc01");
  CHECK(name(std::string(237, 'a'), 0.999) == "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

}  // namespace
}  // namespace ipvsproxier::watch
