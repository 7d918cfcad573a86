// What a client may ask of the test API server beyond what was recorded.

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "test/support/api_server/commands.h"
#include "test/support/api_server/objects.h"
#include "test/support/paths.h"
#include "test/unit/api_server_client.h"

namespace ipvsproxier::test {
namespace {

std::set<std::string> names(const Json& list) {
  std::set<std::string> found;
  for (const auto& item : list["items"]) found.insert(item["metadata"]["name"].get<std::string>());
  return found;
}

std::string labelled(const std::string& object, const std::string& label) {
  auto json = Json::parse(object);
  json["metadata"]["labels"][label] = "";
  return json.dump();
}

TEST_CASE("selectors choose what a list shows") {
  const auto server = started();
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  REQUIRE(server->put(make_service("shop", "none", "None")));
  REQUIRE(server->put(labelled(make_service("shop", "other", "10.96.0.11"),
                               "service.kubernetes.io/service-proxy-name")));
  REQUIRE(server->put(make_node("a", "10.0.0.1")));
  REQUIRE(server->put(make_node("b", "10.0.0.2", "z1")));
  const auto ask = [&](const std::string& target) {
    return names(Json::parse(get(*server, target).body));
  };
  CHECK(ask("/api/v1/services") == std::set<std::string>{"web", "none", "other"});
  CHECK(ask("/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"
            "&fieldSelector=spec.clusterIP%21%3DNone") == std::set<std::string>{"web"});
  CHECK(ask("/api/v1/nodes?fieldSelector=metadata.name%3Db") == std::set<std::string>{"b"});
  CHECK(ask("/api/v1/nodes?labelSelector=topology.kubernetes.io%2Fzone%3Dz1") ==
        std::set<std::string>{"b"});
  CHECK(ask("/api/v1/nodes?labelSelector=topology.kubernetes.io%2Fzone") ==
        std::set<std::string>{"b"});
  CHECK(ask("/api/v1/namespaces/other/services").empty());
  CHECK(get(*server, "/api/v1/services?labelSelector=a%20in%20(b)").code == 400);
}

TEST_CASE(
    "an object that comes to be chosen is added to a watch, one that no longer is leaves it") {
  const auto server = started();
  const auto plain = make_service("shop", "web", "10.96.0.10");
  const auto hidden = labelled(plain, "service.kubernetes.io/service-proxy-name");
  REQUIRE(server->put(hidden));
  const HttpStream stream({.url = watch_from_now(*server) +
                                  "&labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"});
  REQUIRE(server->wait_for_watches(Resource::services, 1));
  REQUIRE(server->put(plain));
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.11")));
  REQUIRE(server->put(hidden));
  REQUIRE(server->remove(Resource::services, "web", "shop"));  // not seen
  REQUIRE(server->put(plain));
  const auto lines = stream.lines(4);
  REQUIRE(lines.size() == 4);
  std::string types;
  for (const auto& line : lines) types += Json::parse(line)["type"].get<std::string>() + " ";
  CHECK(types == "ADDED MODIFIED DELETED ADDED ");
  // It leaves as it was, with the version of the change.
  const auto left = Json::parse(lines[2])["object"];
  CHECK(left["spec"]["clusterIP"] == "10.96.0.11");
  CHECK_FALSE(left["metadata"].contains("labels"));
  CHECK(left["metadata"]["resourceVersion"] == std::to_string(server->version() - 2));
}

TEST_CASE("a server without streaming lists refuses them and says where nothing ends") {
  const auto server = started({.streaming_lists = false});
  REQUIRE(server->put(make_node("a", "10.0.0.1")));
  const auto refused = get(*server,
                           "/api/v1/nodes?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
                           "&resourceVersionMatch=NotOlderThan&timeoutSeconds=1");
  CHECK(refused.code == 422);
  const auto status = Json::parse(refused.body);
  CHECK(status["reason"] == "Invalid");
  CHECK(status["details"]["causes"][0]["field"] == "sendInitialEvents");
  const auto old = get(*server, "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=1");
  CHECK(old.body.find("ADDED") != std::string::npos);
  CHECK(old.body.find("BOOKMARK") == std::string::npos);
  server->set_streaming_lists(true);
  const auto now = get(*server, "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=1");
  CHECK(now.body.find("k8s.io/initial-events-end") != std::string::npos);
}

TEST_CASE("a streaming list must be asked for in full") {
  const auto server = started();
  CHECK(get(*server, "/api/v1/nodes?watch=1&sendInitialEvents=true&timeoutSeconds=1").code == 422);
  CHECK(get(*server, "/api/v1/nodes?watch=1&resourceVersionMatch=NotOlderThan&timeoutSeconds=1")
            .code == 422);
  CHECK(get(*server, "/api/v1/nodes?resourceVersionMatch=Exact").code == 422);
  CHECK(get(*server, "/api/v1/nodes?sendInitialEvents=true").code == 422);
}

TEST_CASE("an exact version shows the past while it is known") {
  const auto server = started();
  REQUIRE(server->put(make_node("a", "10.0.0.1")));
  const auto then = std::to_string(server->version());
  REQUIRE(server->put(make_node("b", "10.0.0.2")));
  const auto target = "/api/v1/nodes?resourceVersionMatch=Exact&resourceVersion=" + then;
  CHECK(names(Json::parse(get(*server, target).body)) == std::set<std::string>{"a"});
  server->compact();
  CHECK(get(*server, target).code == 410);
}

TEST_CASE("what a server adds to an object has the names that the recorded one adds") {
  const auto server = started();
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  const auto version = server->version();
  const auto keys = [](const Json& object) {
    std::vector<std::string> found;
    for (const auto& [key, value] : object.items()) found.push_back(key);
    return found;
  };
  std::ifstream stream(data_path("recorded/services-list.body"));
  const auto recorded = Json::parse(stream)["items"];
  Json like;
  for (const auto& item : recorded)
    if (item["metadata"]["name"] == "web") like = item;
  auto shown = Json::parse(get(*server, "/api/v1/services").body)["items"][0];
  CHECK(keys(shown) == keys(like));
  CHECK(keys(shown["metadata"]) == keys(like["metadata"]));
  CHECK(keys(shown["metadata"]["managedFields"][0]) == keys(like["metadata"]["managedFields"][0]));
  CHECK(shown["metadata"]["uid"].get<std::string>().size() ==
        like["metadata"]["uid"].get<std::string>().size());
  CHECK(shown["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].contains("f:ports"));

  // The same again changes nothing; another one keeps its identity.
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.10")));
  CHECK(server->version() == version);
  REQUIRE(server->put(make_service("shop", "web", "10.96.0.11")));
  const auto later = Json::parse(get(*server, "/api/v1/services").body)["items"][0];
  CHECK(later["metadata"]["uid"] == shown["metadata"]["uid"]);
  CHECK(later["metadata"]["resourceVersion"] == std::to_string(version + 1));
}

TEST_CASE("what is no object is refused") {
  const auto server = started();
  CHECK_FALSE(server->put("{"));
  CHECK_FALSE(server->put(R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}})"));
  CHECK_FALSE(server->put(R"({"kind":"Node","apiVersion":"v1","metadata":{}})"));
}

const std::string kEvents = "/apis/events.k8s.io/v1/namespaces/default/events";
const std::string kJson = "application/json";
const std::string kMerge = "application/strategic-merge-patch+json";

Json make_event() {
  return Json::parse(R"({"kind": "Event", "apiVersion": "events.k8s.io/v1",
    "metadata": {"name": "kp.17", "namespace": "default"},
    "eventTime": "2026-11-20T22:19:50.000000Z", "reportingController": "kube-proxy",
    "reportingInstance": "kube-proxy-h", "action": "StartKubeProxy", "reason": "Starting",
    "regarding": {"kind": "Node", "name": "kp", "apiVersion": "v1"}, "type": "Normal"})");
}

int send_event(const ApiServer& server, const std::string& method, const std::string& path,
               const std::string& body, const std::string& type) {
  return fetch({.url = server.url() + path,
                .headers = {"Content-Type: " + type},
                .method = method,
                .body = body})
      .code;
}

TEST_CASE("Events are kept, and patched only if they are there") {
  const auto server = started();
  const std::string series =
      R"({"series":{"count":2,"lastObservedTime":"2026-11-20T22:20:00.000000Z"}})";
  CHECK(send_event(*server, "PATCH", kEvents + "/kp.17", series, kMerge) == 404);
  const auto event = make_event();
  CHECK(send_event(*server, "POST", kEvents, event.dump(), kJson) == 201);
  CHECK(send_event(*server, "POST", kEvents, event.dump(), kJson) == 409);
  CHECK(send_event(*server, "PATCH", kEvents + "/kp.17", series, kMerge) == 200);
  REQUIRE(server->events().size() == 1);
  const auto kept = Json::parse(server->events()[0]);
  CHECK(kept["series"]["count"] == 2);
  CHECK(kept["reason"] == "Starting");
  CHECK(*run_command(*server, "events") == "[" + server->events()[0] + "]");
  CHECK(send_event(*server, "DELETE", kEvents + "/kp.17", "", kJson) == 405);
}

TEST_CASE("an Event that kube-apiserver would refuse is refused") {
  const auto server = started();
  const auto [patch, code] = GENERATE(table<std::string, int>({
      {R"({"reason": ""})", 422},
      {R"({"action": null})", 422},
      {R"({"eventTime": null})", 422},
      {R"({"type": "Bad"})", 422},
      {R"({"reportingController": null})", 422},
      {R"({"reportingInstance": ")" + std::string(129, 'x') + R"("})", 422},
      {R"({"note": ")" + std::string(1025, 'x') + R"("})", 422},
      {R"({"note": ")" + std::string(1024, 'x') + R"("})", 201},
      {R"({"metadata": {"name": "KP"}})", 422},
      {R"({"series": {"count": 1, "lastObservedTime": "2026-11-20T22:19:50.000000Z"}})", 422},
      {R"({"series": {"count": 2}})", 422},
      {R"({"series": {"count": 2, "lastObservedTime": "2026-11-20T22:19:50.000000Z"}})", 201},
      {R"({"eventTime": "2026-11-20T22:19:50Z"})", 400},
      {R"({"eventTime": "2026-11-20T22:19:50.000+01:00"})", 400},
      {R"({"eventTime": "2026-11-20T22:19:50.000000+01:00"})", 201},
      {R"({"kind": "Node"})", 400},
      {R"({"message": "x"})", 400},
      {R"({"metadata": {"namespace": "shop"}})", 400},
  }));
  auto event = make_event();
  event.merge_patch(Json::parse(patch));
  INFO(patch);
  CHECK(send_event(*server, "POST", kEvents, event.dump(), kJson) == code);
  CHECK(server->events().size() == (code == 201 ? 1 : 0));
}

TEST_CASE("an Event of another namespace must be about something there") {
  const auto server = started();
  const std::string path = "/apis/events.k8s.io/v1/namespaces/shop/events";
  auto event = make_event();
  event["metadata"]["namespace"] = "shop";
  CHECK(send_event(*server, "POST", path, event.dump(), kJson) == 422);
  event["regarding"]["namespace"] = "shop";
  CHECK(send_event(*server, "POST", path, event.dump(), kJson) == 201);
}

TEST_CASE("a patch that kube-apiserver would refuse is refused") {
  const auto server = started();
  const auto event = make_event();
  CHECK(send_event(*server, "POST", kEvents, event.dump(), kMerge) == 415);
  REQUIRE(send_event(*server, "POST", kEvents, event.dump(), kJson) == 201);
  const std::string path = kEvents + "/kp.17";
  CHECK(send_event(*server, "PATCH", path, "{}", kJson) == 415);
  CHECK(send_event(*server, "PATCH", path, "[]", kMerge) == 400);
  CHECK(send_event(*server, "PATCH", path, R"({"note":"x"})", kMerge) == 422);
  CHECK(send_event(*server, "PATCH", path, R"({"series":{"count":2}})", kMerge) == 422);
  CHECK_FALSE(Json::parse(server->events()[0]).contains("series"));
}

}  // namespace
}  // namespace ipvsproxier::test
