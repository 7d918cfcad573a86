#include "proxier/api/wire.h"

#include <catch2/catch.hpp>

#include "test/unit/problem_lines.h"

namespace ipvsproxier::api {
namespace {

using test::lines_of;
using Lines = std::vector<std::string>;

constexpr ObjectKind kSlices = ObjectKind::endpoint_slice;

std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}";
}

WatchEvent decoded(const std::string& document, ObjectKind kind = ObjectKind::service) {
  auto result = decode_watch_event(document, kind);
  CAPTURE(document);
  REQUIRE(result);
  return *std::move(result);
}

const std::string kService =
    R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"shop",)"
    R"("resourceVersion":"7","managedFields":[{"fieldsV1":{"f:spec":{"k:{\"port\":80}":{}}}}]},)"
    R"("spec":{"clusterIP":"10.0.0.9","ports":[{"port":80}]}})";

TEST_CASE("events carry their object, its name and version") {
  const auto [text, type] =
      GENERATE(table<std::string, EventType>({{"ADDED", EventType::added},
                                              {"MODIFIED", EventType::modified},
                                              {"DELETED", EventType::deleted}}));
  const auto result = decoded(event(text, kService));
  const Service service{.name = {"shop", "web"},
                        .cluster_ips = {*IpAddress::parse("10.0.0.9")},
                        .ip_families = {Family::ipv4},
                        .ports = {{"", Protocol::tcp, 80, 0}}};
  CHECK(result ==
        WatchEvent{
            .type = type, .object = service, .name = {"shop", "web"}, .resource_version = "7"});
  CHECK(to_string(type) == text);
  // The members' order is the server's affair.
  CHECK(decoded("{\"object\":" + kService + ",\"type\":\"" + text + "\"}\n") == result);
}

TEST_CASE("of members of one name the last counts, as for an API server") {
  const auto result = decoded(
      R"({"type":"ADDED","object":7,"type":"DELETED","object":{"kind":"Node","kind":"Service",)"
      R"("apiVersion":"v1","metadata":{"name":"a","name":"b"},"spec":{"type":"ExternalName"}}})");
  CHECK(result.type == EventType::deleted);
  CHECK(std::get<Service>(result.object.value()).name == NamespacedName{"default", "b"});
}

TEST_CASE("of an object of 10 MB only what is read is kept") {
  const std::string blob(std::size_t{10} << 20U, 'x');
  const auto result = decoded(event(
      "ADDED", R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"shop",)"
               R"("resourceVersion":"7","annotations":{"a":")" +
                   blob + R"("}},"spec":{"clusterIP":"10.0.0.9","ports":[{"port":80}]}})"));
  CHECK(result == decoded(event("ADDED", kService)));
}

TEST_CASE("bookmarks carry a version, and may end the initial events") {
  const auto bookmark = [](const std::string& more) {
    return decoded(event("BOOKMARK", R"({"kind":"Service","apiVersion":"v1","metadata":{)" + more +
                                         R"("resourceVersion":"9"}})"));
  };
  CHECK(bookmark("") == WatchEvent{.type = EventType::bookmark, .resource_version = "9"});
  CHECK(
      bookmark(R"("annotations":{"k8s.io/initial-events-end":"true"},)") ==
      WatchEvent{.type = EventType::bookmark, .resource_version = "9", .initial_events_end = true});
  CHECK_FALSE(
      bookmark(R"("annotations":{"k8s.io/initial-events-end":"false"},)").initial_events_end);
  CHECK_FALSE(bookmark(R"("annotations":{"k8s.io/initial-events-end":true},)").initial_events_end);
}

TEST_CASE("an error is a Status") {
  CHECK(
      decoded(event("ERROR", R"({"kind":"Status","code":410,"reason":"Expired","message":"m"})")) ==
      WatchEvent{.type = EventType::error, .status = {410, "Expired", "m", std::nullopt}});
  CHECK(decoded(event("ERROR", "{}")) == WatchEvent{.type = EventType::error});
}

TEST_CASE("an object that does not decode leaves its name and says why") {
  const auto result = decoded(
      event("MODIFIED", R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"web",)"
                        R"("namespace":"shop","resourceVersion":"8"},"spec":{"clusterIP":"x"}})"));
  CHECK_FALSE(result.object);
  CHECK(result.name == NamespacedName{"shop", "web"});
  CHECK(result.resource_version == "8");
  CHECK(lines_of(result.problems) ==
        Lines{"error: Service shop/web: spec.clusterIP: \"x\" is no IP address; the object is left "
              "out"});
  const auto nameless = decoded(event("ADDED", R"({"kind":"Service","apiVersion":"v1"})"));
  CHECK(nameless.name.name.empty());
  REQUIRE_FALSE(nameless.problems.empty());
  CHECK(lines_of(nameless.problems)[0] ==
        "error: Service: metadata.name: is missing; the object is left out");
  const auto other = decoded(event("ADDED", kService), kSlices);
  CHECK_FALSE(other.object);
  CHECK(lines_of(other.problems) ==
        Lines{"error: Service shop/web: kind: must be EndpointSlice; the object is left out"});
  const auto unknown = decoded(event("ADDED", R"({"kind":"Pod","metadata":{"name":"a"}})"));
  CHECK(lines_of(unknown.problems) ==
        Lines{"error: Pod default/a: kind: must be Service, EndpointSlice or Node; the object is "
              "left out"});
}

TEST_CASE("a Node has no namespace") {
  const auto result =
      decoded(event("ADDED",
                    R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"n","namespace":"x"}})"),
              ObjectKind::node);
  CHECK(result.name == NamespacedName{"", "n"});
  CHECK(std::get<Node>(*result.object).name == "n");
}

TEST_CASE("what is no event is one error") {
  const auto [document, error] = GENERATE(table<std::string, std::string>({
      {"", "an event of the watch is no JSON: "},
      {"{]", "an event of the watch is no JSON: "},
      {R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}]})",
       "an event of the watch is no JSON: "},
      {R"({"type":"ERROR","object":{"code":410}])", "an event of the watch is no JSON: "},
      {"{} {}", "an event of the watch is no JSON: "},
      {"{\"type\":\"ADDED\xff\"}",
       "an event of the watch has an unknown type: \"ADDED\xef\xbf\xbd\""},
      {"[]", "an event of the watch has an unknown type: none"},
      {event("EXPLODED", "{}"), "an event of the watch has an unknown type: \"EXPLODED\""},
      {R"({"type":7,"object":{}})", "an event of the watch has an unknown type: 7"},
      {R"({"type":"ADDED"})", "an event of the watch has no object"},
      {event("DELETED", "[]"), "an event of the watch has no object"},
      {event("BOOKMARK", R"({"metadata":{}})"), "a bookmark of the watch has no resourceVersion"},
      {event("BOOKMARK", R"({"metadata":{"resourceVersion":7}})"),
       "a bookmark of the watch has no resourceVersion"},
      {event("ADDED", std::string(10'000, '[') + std::string(10'000, ']')),
       "an event of the watch has no object"},
  }));
  CAPTURE(document);
  const auto result = decode_watch_event(document, ObjectKind::service);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == netlink::ErrorKind::malformed);
  CHECK(result.error().where.substr(0, error.size()) == error);
}

TEST_CASE("items of a list need not say what they are") {
  const auto item = decode_list_item(
      R"({"metadata":{"name":"web-1","namespace":"shop"},"addressType":"IPv4"})", kSlices);
  CHECK(item.name == NamespacedName{"shop", "web-1"});
  CHECK(std::get<EndpointSlice>(item.object.value()).name == item.name);
  const auto same = decode_list_item(kService, ObjectKind::service);
  CHECK(same.object == decoded(event("ADDED", kService)).object);
  const auto other = decode_list_item(kService, kSlices);
  CHECK(lines_of(other.problems) ==
        Lines{"error: Service shop/web: kind: must be EndpointSlice; the object is left out"});
  const auto names = decode_list_item(
      R"({"metadata":{"name":"f","namespace":"shop"},"addressType":"FQDN"})", kSlices);
  CHECK_FALSE(names.object);
  CHECK(lines_of(names.problems) == Lines{"warning: EndpointSlice shop/f: addressType: FQDN is not "
                                          "proxied; the slice is ignored"});
}

// metadata.managedFields is what its writer likes, and an API server of Kubernetes 1.36 stores
// 10,000 levels of it.
std::string service_with_fields(const std::string& fields) {
  return R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"shop",)"
         R"("resourceVersion":"7","managedFields":[{"fieldsV1":)" +
         fields + R"(}]},"spec":{"clusterIP":"10.0.0.9","ports":[{"port":80}]}})";
}

std::string nested(std::size_t levels) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) text += R"({"f:a}\"]":)";
  return text + "{}" + std::string(levels, '}');
}

TEST_CASE("what an API server stores and nobody reads costs no object") {
  const auto fields =
      GENERATE(nested(90), nested(155), nested(9'990), nested(1'000'000),
               "{\"f:\xff\xc3\":{},\"\xed\xa0\x80\xf4\x90\x80\x80\":{}}",
               R"({"f:\ud800\u0041":"\udc00"})", R"({"f:\ud83d\ude00":"\ud83d\ude00\ud83d"})");
  const auto text = service_with_fields(fields);
  CHECK(decoded(event("ADDED", text)) == decoded(event("ADDED", kService)));
  const auto item = decode_list_item(text, ObjectKind::service);
  CHECK(item.object == decoded(event("ADDED", kService)).object);
  CHECK(item.problems.empty());
}

TEST_CASE("text that is no UTF-8 is what Go makes of it") {
  const std::string instead = "\xef\xbf\xbd";
  const auto [text, expected] = GENERATE_COPY(table<std::string, std::string>({
      {"a\xff", "a" + instead},
      {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
      {"\xc0\xaf", instead + instead},  // too long
      {"\xe2\x82", instead + instead},  // its end is missing
      {"\xe2\x82z", instead + instead + "z"},
      {"\xed\xa0\x80", instead + instead + instead},                // half of a pair
      {"\xf4\x90\x80\x80", instead + instead + instead + instead},  // beyond the last
      {"\\ud800", instead},
      {"\\ud800\\u0041", instead + "A"},
      {"\\udc00\\ud83d\\ude00\xff", instead + "\xf0\x9f\x98\x80" + instead},
  }));
  CAPTURE(text);
  const auto item = decode_list_item("{\"metadata\":{\"name\":\"" + text + "\xff\"},\"spec\":{}}",
                                     ObjectKind::node);
  CHECK(item.name.name == expected + instead);
}

TEST_CASE("an object that is no JSON costs itself, by as much of its name as can be told") {
  const std::string metadata =
      R"("metadata":{"labels":{"name":"x"},"name":"web","namespace":"shop","uid":"u",)"
      R"("resourceVersion":"7","ownerReferences":[{"name":"y"}]},"spec":{"name":"z","a":)";
  const auto [object, name, version] = GENERATE_COPY(table<std::string, std::string, std::string>({
      {"{" + metadata + "nul}}", "shop/web", "7"},
      {"{" + metadata + "[1,]}}", "shop/web", "7"},
      {"{" + metadata + "{]}}}", "shop/web", "7"},
      {"{" + metadata + "1e999}}", "shop/web", "7"},
      {"{" + metadata + "123456789012345678901}}", "shop/web", "7"},
      {"{" + metadata + "{\"x\":\"cut off", "shop/web", "7"},
      {R"({"metadata":{"name":"web","resource)", "default/web", ""},
      {R"({"metadata":{"na\u006de":"web","resourceVersion":"a b"}]})", "default/", ""},
      {R"({"metadata":["name","web"],"spec":]})", "default/", ""},
      {"{]", "default/", ""},
  }));
  CAPTURE(object);
  const auto result = decoded(event("MODIFIED", object));
  CHECK(result.type == EventType::modified);
  CHECK_FALSE(result.object);
  CHECK(to_string(result.name) == name);
  CHECK(result.resource_version == version);
  const auto who = result.name.name.empty() ? "Service" : "Service " + name;
  const auto lines = lines_of(result.problems);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("error: " + who + ": is no JSON: "));

  const auto item = decode_list_item(object, ObjectKind::service);
  CHECK_FALSE(item.object);
  CHECK(item.name == result.name);
  CHECK(lines_of(item.problems) == lines);
}

TEST_CASE("of an object that is too large its beginning tells what it is") {
  const auto event = outline_watch_event(
      R"({"type":"DELETED","object":{"kind":"Node","metadata":{"name":"n1","namespace":"x","resourceVersion":"9")",
      ObjectKind::node, "is larger than 5 bytes");
  REQUIRE(event);
  CHECK(event->type == EventType::deleted);
  CHECK(event->name == NamespacedName{"", "n1"});
  CHECK(event->resource_version == "9");
  CHECK(lines_of(event->problems) == Lines{"error: Node n1: is larger than 5 bytes"});
  CHECK_FALSE(outline_watch_event("{", kSlices, "is larger than 5 bytes"));
  const auto item = outline_list_item(R"({"metadata":{"name":"a","namespace":"b")", kSlices, "why");
  CHECK(item.name == NamespacedName{"b", "a"});
  CHECK(lines_of(item.problems) == Lines{"error: EndpointSlice b/a: why"});
}

TEST_CASE("an envelope says the list's version and where it goes on") {
  const std::string start = R"({"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1",)";
  const auto envelope = decode_list_envelope(
      start + R"("metadata":{"resourceVersion":"12","continue":"abc"},"items":[]})", kSlices);
  REQUIRE(envelope);
  CHECK(*envelope == ListEnvelope{"12", "abc", true});
  const auto last =
      decode_list_envelope(start + R"("metadata":{"resourceVersion":"12"},"items":null})", kSlices);
  REQUIRE(last);
  CHECK(last->continue_token.empty());

  const auto [document, error] = GENERATE_COPY(table<std::string, std::string>({
      {start + R"("metadata":{},"items":[]})", "the list has no resourceVersion"},
      {start + R"("metadata":{"resourceVersion":"1"}})", "the list has no items"},
      {start + R"("metadata":{"resourceVersion":"1"},"items":{"a":1}})",
       "the items of the list are no list but an object"},
      {R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"}})",
       R"(the answer is no discovery.k8s.io/v1 EndpointSliceList but: {"kind":"ServiceList",)"
       R"("apiVersion":"v1","metadata":{"resourceVersion":"1"}})"},
      {"{]", "the list is no JSON: "},
  }));
  const auto refused = decode_list_envelope(document, kSlices);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().where.substr(0, error.size()) == error);
}

TEST_CASE("an answer that is no success is a Status or the beginning of anything else") {
  CHECK(decode_status(R"({"kind":"Status","code":504,"reason":"Timeout","message":"m",)"
                      R"("details":{"retryAfterSeconds":1}})") ==
        ApiStatus{504, "Timeout", "m", 1});
  CHECK(decode_status(
            R"({"kind":"Status","code":-1,"reason":1,"details":{"retryAfterSeconds":"1"}})") ==
        ApiStatus{});
  CHECK(decode_status("") == ApiStatus{});
  CHECK(decode_status("  <html>\r\n\t<b>no</b>\n") ==
        ApiStatus{0, "", "<html> <b>no</b>", std::nullopt});
  const std::string umlaut = "\xc3\xa4";
  CHECK(decode_status(std::string(200, 'x')).message == std::string(200, 'x'));
  CHECK(decode_status(std::string(201, 'x')).message == std::string(200, 'x') + "...");
  CHECK(decode_status(std::string(199, 'x') + umlaut).message == std::string(199, 'x') + "...");
  CHECK(decode_status(std::string(198, 'x') + umlaut + "x").message ==
        std::string(198, 'x') + umlaut + "...");
}

}  // namespace
}  // namespace ipvsproxier::api
