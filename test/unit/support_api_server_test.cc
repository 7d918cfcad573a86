// The test API server answers as the recorded kube-apiserver did, byte for byte where it can.

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "test/support/api_server/objects.h"
#include "test/support/files.h"
#include "test/support/paths.h"
#include "test/unit/api_server_client.h"

namespace ipvsproxier::test {
namespace {

const std::string kServicesList =
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fheadless%2C"
    "%21service.kubernetes.io%2Fservice-proxy-name";
const std::string kSlicesList =
    "/apis/discovery.k8s.io/v1/endpointslices?labelSelector="
    "%21service.kubernetes.io%2Fheadless%2C"
    "%21service.kubernetes.io%2Fservice-proxy-name";
const std::string kNodesList = "/api/v1/nodes?fieldSelector=metadata.name%3Dkp";
const std::string kStream =
    "&watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
    "&resourceVersionMatch=NotOlderThan&timeoutSeconds=75";

std::string recorded(const std::string& name) {
  return read_file(data_path("recorded/") + name + ".body");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::uint64_t version_of(const Json& object) {
  return std::stoull(object["metadata"]["resourceVersion"].get<std::string>());
}

// So that it gets the version that it has.
void put_recorded(ApiServer& server, const Json& object) {
  server.set_version(version_of(object) - 1);
  REQUIRE(server.put(object.dump()));
}

// The items of a recorded list, in the order of their versions as they came to be.
void put_recorded_list(ApiServer& server, const std::string& name, const std::string& kind) {
  auto items = Json::parse(recorded(name))["items"].get<std::vector<Json>>();
  std::ranges::sort(items, {}, version_of);
  for (auto& item : items) {
    item["kind"] = kind;
    put_recorded(server, item);
  }
}

TEST_CASE("recorded lists come back byte for byte") {
  const auto server = started();
  put_recorded_list(*server, "services-list", "Service");
  put_recorded_list(*server, "nodes-list", "Node");
  put_recorded_list(*server, "endpointslices-list", "EndpointSlice");

  server->set_version(251);
  const auto services = get(*server, kServicesList + "&limit=500&resourceVersion=0");
  CHECK(services.code == 200);
  CHECK(services.body == recorded("services-list"));
  CHECK(services.headers.at("transfer-encoding") == "chunked");
  CHECK(services.headers.at("content-type") == "application/json");
  CHECK(services.headers.at("cache-control") == "no-cache, private");
  CHECK(services.headers.contains("audit-id"));
  CHECK(services.headers.contains("date"));
  CHECK(services.headers.contains("x-kubernetes-pf-flowschema-uid"));

  server->set_version(254);
  CHECK(get(*server, kSlicesList + "&limit=500&resourceVersion=0").body ==
        recorded("endpointslices-list"));
  server->set_version(215);
  const auto nodes = get(*server, kNodesList + "&resourceVersion=0");
  CHECK(nodes.body == recorded("nodes-list"));
  CHECK(nodes.headers.at("content-length") == "1296");
}

TEST_CASE("recorded pages come back byte for byte") {
  const auto server = started();
  put_recorded_list(*server, "services-list", "Service");
  server->set_version(254);
  const auto first = get(*server, kServicesList + "&limit=4");
  CHECK(first.body == recorded("services-page1"));
  const auto token = Json::parse(first.body)["metadata"]["continue"].get<std::string>();
  CHECK(get(*server, kServicesList + "&limit=4&continue=" + token).body ==
        recorded("services-page2"));
}

// Feeds the server with what the recorded watch saw, after its first events.
void replay(ApiServer& server, Resource resource, const std::vector<std::string>& lines) {
  bool initial = true;
  for (const auto& line : lines) {
    const auto event = Json::parse(line);
    const auto& object = event["object"];
    if (event["type"] == "BOOKMARK") {
      server.set_version(version_of(object));
      if (!initial) server.send_bookmark(resource);
      initial = false;
    } else if (!initial && event["type"] == "DELETED") {
      server.set_version(version_of(object) - 1);
      REQUIRE(server.remove(resource, object["metadata"]["name"].get<std::string>(),
                            object["metadata"].value("namespace", "")));
    } else if (!initial) {
      put_recorded(server, object);
    }
  }
}

TEST_CASE("recorded watches come back byte for byte") {
  const auto [name, target, resource] = GENERATE(table<std::string, std::string, Resource>({
      {"services-watchlist", kServicesList + kStream, Resource::services},
      {"endpointslices-watchlist", kSlicesList + kStream, Resource::endpoint_slices},
      {"nodes-watch", kNodesList + "&watch=1&allowWatchBookmarks=true&timeoutSeconds=75",
       Resource::nodes},
  }));
  CAPTURE(name);
  const auto server = started();
  const auto lines = lines_of(recorded(name));
  std::vector<Json> initial;
  for (const auto& line : lines) {
    auto event = Json::parse(line);
    if (event["type"] == "BOOKMARK") break;
    initial.push_back(event["object"]);
  }
  std::ranges::sort(initial, {}, version_of);
  for (const auto& object : initial) put_recorded(*server, object);
  server->set_version(254);

  const HttpStream stream({.url = server->url() + target});
  REQUIRE(server->wait_for_watches(resource, 1));
  replay(*server, resource, lines);
  const auto seen = stream.lines(lines.size());
  REQUIRE(seen.size() == lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(seen[i] == lines[i]);
}

TEST_CASE("refusals are the recorded ones") {
  const auto [name, target, code] = GENERATE(table<std::string, std::string, int>({
      {"watch-bad-rv", kServicesList + "&watch=1&resourceVersion=abc&timeoutSeconds=3", 500},
      {"watch-future-rv",
       kServicesList + "&resourceVersion=999999&resourceVersionMatch=NotOlderThan&timeoutSeconds=3",
       504},
      {"not-found", "/apis/discovery.k8s.io/v1beta1/endpointslices", 404},
      {"forbidden-secrets", "/api/v1/secrets", 403},
  }));
  CAPTURE(name);
  const auto server = started();
  server->set_version(254);
  const auto response = get(*server, target);
  CHECK(response.code == code);
  CHECK(response.body == recorded(name));
  CHECK(response.headers.contains("retry-after") == (code == 504));
  CHECK(response.headers.contains("content-length"));
  REQUIRE(server->requests().size() == 1);
  CHECK(server->requests()[0].status == code);
}

TEST_CASE("who has no credential or a wrong one is told so as recorded") {
  const auto server = started({.token = "right"});
  const auto anonymous = get(*server, "/api/v1/services");
  CHECK(anonymous.code == 403);
  CHECK(anonymous.body == recorded("anonymous-forbidden"));
  const auto wrong = get(*server, "/api/v1/services", {"Authorization: Bearer wrong"});
  CHECK(wrong.code == 401);
  CHECK(wrong.body == recorded("unauthorized"));
  CHECK(get(*server, "/api/v1/services", {"Authorization: Bearer right"}).code == 200);
  server->set_token("rotated");
  CHECK(get(*server, "/api/v1/services", {"Authorization: Bearer right"}).code == 401);
  CHECK(get(*server, "/api/v1/services", {"Authorization: Bearer rotated"}).code == 200);
  const auto log = server->requests();
  REQUIRE(log.size() == 5);
  CHECK(log[0].credential == "anonymous");
  CHECK(log[1].credential == "token wrong");
  CHECK(log[1].headers.at("authorization") == "Bearer wrong");
}

TEST_CASE("a version of the compacted past is an ERROR event for a watch, as recorded") {
  const auto server = started();
  server->set_version(319);
  const auto response =
      get(*server,
          kServicesList + "&watch=1&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds=3");
  CHECK(response.code == 200);
  CHECK(response.body == recorded("watch-too-old-rv"));
  CHECK(response.error.empty());
}

TEST_CASE("a list goes on only while its version is known, else 410 with a token to go on with") {
  const auto server = started();
  REQUIRE(server->put_all(make_services(5)));
  const auto first = Json::parse(get(*server, "/api/v1/services?limit=2").body)["metadata"];
  CHECK(first["remainingItemCount"] == 3);
  const auto token = first["continue"].get<std::string>();

  // A page shows the past.
  REQUIRE(server->remove(Resource::services, "s-000003", "bulk"));
  REQUIRE(server->put(make_service("bulk", "s-000004", "10.64.0.99")));
  REQUIRE(server->put(make_service("bulk", "s-000009", "10.64.0.98")));
  const auto rest = Json::parse(get(*server, "/api/v1/services?limit=9&continue=" + token).body);
  REQUIRE(rest["items"].size() == 3);
  CHECK(rest["items"][1]["metadata"]["name"] == "s-000003");
  CHECK(rest["items"][2]["spec"]["clusterIP"] == "10.64.0.5");
  CHECK(rest["metadata"]["resourceVersion"] == first["resourceVersion"]);

  server->compact();
  const auto gone = get(*server, "/api/v1/services?limit=9&continue=" + token);
  CHECK(gone.code == 410);
  const auto status = Json::parse(gone.body);
  CHECK(status["reason"] == "Expired");
  const auto onward = get(*server, "/api/v1/services?limit=9&continue=" +
                                       status["metadata"]["continue"].get<std::string>());
  const auto items = Json::parse(onward.body)["items"];
  REQUIRE(items.size() == 3);
  CHECK(items[1]["spec"]["clusterIP"] == "10.64.0.99");

  const auto bad = get(*server, "/api/v1/services?limit=4&continue=bm90LWEtdG9rZW4");
  CHECK(bad.code == 400);
  auto expected = Json::parse(recorded("services-page-bad-continue"));
  auto shown = Json::parse(bad.body);
  CHECK(shown["message"].get<std::string>().starts_with(
      "invalid continue token: continue key is not valid"));
  shown.erase("message");
  expected.erase("message");
  CHECK(shown == expected);
}

}  // namespace
}  // namespace ipvsproxier::test
