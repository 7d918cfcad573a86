#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/watch/api_source.h"
#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::Words;

struct Rig {
  test::ScriptedTransport transport;
  test::ManualTimers timers;
  std::ostringstream log_text;
  spdlog::logger log{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_text)};
  std::vector<model::Changes> updates;
  ApiSource source{"n1",
                   transport,
                   timers,
                   [] { return 0.0; },
                   30s,
                   log,
                   [this](model::Changes changes) { updates.push_back(std::move(changes)); }};

  test::ScriptedTransport::Call& call(const std::string& path) {
    for (std::size_t i = transport.count(); i-- > 0;)
      if (transport.call(i).is_open() && transport.call(i).request().target.starts_with(path + "?"))
        return transport.call(i);
    FAIL("nothing asks for " << path);
    return transport.last();
  }
  test::ScriptedTransport::Call& services() { return call("/api/v1/services"); }
  test::ScriptedTransport::Call& slices() {
    return call("/apis/discovery.k8s.io/v1/endpointslices");
  }
  test::ScriptedTransport::Call& nodes() { return call("/api/v1/nodes"); }
};

std::string slice(const std::string& type, const std::string& name, const std::string& address_type,
                  const std::string& address, int version) {
  return test::event_text(
      type, R"({"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":")" +
                name + R"(","namespace":"shop","resourceVersion":")" + std::to_string(version) +
                R"(","labels":{"kubernetes.io/service-name":"web"}},"addressType":")" +
                address_type + R"(","endpoints":[{"addresses":[")" + address +
                R"("],"conditions":{"ready":true}}],"ports":[{"port":80,"protocol":"TCP"}]})");
}

std::string node(const std::string& type, int version) {
  return test::event_text(
      type, R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","resourceVersion":")" +
                std::to_string(version) +
                R"("},"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}})");
}

std::string end_of_list(const std::string& kind, const std::string& api_version, int version) {
  return test::event_text("BOOKMARK",
                          R"({"kind":")" + kind + R"(","apiVersion":")" + api_version +
                              R"(","metadata":{"resourceVersion":")" + std::to_string(version) +
                              R"(","annotations":{"k8s.io/initial-events-end":"true"}}})");
}

TEST_CASE("three resources are asked for with the selectors of kube-proxy") {
  Rig rig;
  CHECK(rig.transport.count() == 0);
  rig.source.start();
  const std::string rest =
      "&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
      "&timeoutSeconds=N";
  CHECK(rig.transport.take_targets() ==
        Words{"/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"
              "&fieldSelector=spec.clusterIP%21%3DNone" +
                  rest,
              "/apis/discovery.k8s.io/v1/endpointslices"
              "?labelSelector=%21service.kubernetes.io%2Fheadless" +
                  rest,
              "/api/v1/nodes?fieldSelector=metadata.name%3Dn1" + rest});
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(rig.transport.call(i).request().method == access::Method::get);
}

TEST_CASE("it is complete when the last of the three lists is") {
  Rig rig;
  rig.source.start();
  rig.nodes().head(200);
  rig.nodes().send(end_of_list("Node", "v1", 5));
  rig.services().head(200);
  rig.services().send(test::added("web", 3, "10.0.0.1") + test::list_end(5));
  REQUIRE(rig.updates.size() == 2);
  CHECK(rig.updates[0].empty());
  REQUIRE(rig.updates[1].services.size() == 1);
  CHECK(rig.updates[1].services.at({"shop", "web"}));
  CHECK(rig.updates[1].slices.empty());
  CHECK_FALSE(rig.updates[1].node);
  CHECK_FALSE(rig.updates[1].complete);

  rig.slices().head(200);
  rig.slices().send(slice("ADDED", "web-1", "IPv4", "10.1.0.1", 4) +
                    end_of_list("EndpointSlice", "discovery.k8s.io/v1", 6));
  REQUIRE(rig.updates.size() == 3);
  CHECK(rig.updates[2].complete == true);
  CHECK(rig.updates[2].slices.at({"shop", "web-1"}));

  // Once it is, it is: also while one of them is listed anew.
  rig.services().send(
      test::event_text("ERROR", test::status_text(410, "Expired", "too old resource version")));
  rig.nodes().send(node("ADDED", 7));
  CHECK(rig.updates.back().complete == true);
  REQUIRE(rig.updates.back().node);
  REQUIRE(*rig.updates.back().node);
  CHECK((*rig.updates.back().node)->name == "n1");
}

TEST_CASE("what is gone is told with its kind") {
  Rig rig;
  rig.source.start();
  rig.nodes().head(200);
  rig.nodes().send(node("ADDED", 4) + end_of_list("Node", "v1", 5) + node("DELETED", 6));
  rig.slices().head(200);
  rig.slices().send(slice("ADDED", "web-1", "IPv4", "10.1.0.1", 4) +
                    end_of_list("EndpointSlice", "discovery.k8s.io/v1", 6));
  rig.slices().send(slice("DELETED", "web-1", "IPv4", "10.1.0.1", 7));
  REQUIRE(rig.updates.size() == 3);
  // The Node came and went in one piece.
  REQUIRE(rig.updates[0].node);
  CHECK_FALSE(*rig.updates[0].node);
  CHECK(rig.updates[0].services.empty());
  CHECK(rig.updates[0].slices.empty());
  REQUIRE(rig.updates[2].slices.size() == 1);
  CHECK_FALSE(rig.updates[2].slices.at({"shop", "web-1"}));
}

TEST_CASE("a slice of names is nothing to proxy, and no problem") {
  Rig rig;
  rig.source.start();
  rig.slices().head(200);
  rig.slices().send(slice("ADDED", "names", "FQDN", "example.org", 4) +
                    end_of_list("EndpointSlice", "discovery.k8s.io/v1", 6));
  rig.slices().send(slice("MODIFIED", "names", "FQDN", "example.com", 7));
  REQUIRE(rig.updates.size() == 1);
  CHECK(rig.updates[0].empty());
  CHECK(rig.source.status()[1].status.objects == 0);
}

TEST_CASE("one connection that breaks is one line, and one when all goes on") {
  Rig rig;
  rig.log.set_pattern("%l %v");
  rig.source.start();
  const auto all = [&rig](const auto& what) {
    for (auto* const call : {&rig.services(), &rig.slices(), &rig.nodes()}) what(*call);
  };
  const auto list_all = [&rig] {
    rig.services().send(test::list_end(5));
    rig.slices().send(end_of_list("EndpointSlice", "discovery.k8s.io/v1", 5));
    rig.nodes().send(end_of_list("Node", "v1", 5));
  };
  all([](auto& call) { call.fail("Connection reset by peer"); });
  rig.timers.advance(800ms);
  CHECK(rig.log_text.str() ==
        "warning endpointslices, nodes, services: https://api.test:6443: Connection reset by peer "
        "(failed); again in 0.8 s\n");
  all([](auto& call) { call.head(200); });
  rig.log_text.str("");
  list_all();
  rig.timers.advance(1s);
  CHECK_THAT(rig.log_text.str(),
             Catch::EndsWith("\ninfo endpointslices, nodes, services: followed again\n"));
}

TEST_CASE("one resource that fails does not disturb the others") {
  Rig rig;
  rig.source.start();
  rig.slices().fail("Connection refused");
  rig.services().head(200);
  rig.services().send(test::added("web", 3, "10.0.0.1") + test::list_end(5));
  CHECK(rig.updates.size() == 1);
  const auto status = rig.source.status();
  REQUIRE(status.size() == 3);
  CHECK(status[0].resource == "services");
  CHECK(status[0].status.objects == 1);
  CHECK(status[0].status.last_error.empty());
  CHECK(status[1].resource == "endpointslices");
  CHECK_FALSE(status[1].status.is_listed);
  CHECK(status[1].status.failures == 1);
  CHECK_THAT(status[1].status.last_error, Catch::Contains("Connection refused"));
  CHECK(status[2].resource == "nodes");
  CHECK(status[2].status.watches == 1);
  rig.timers.advance(800ms);
  CHECK(rig.slices().is_open());
}

}  // namespace
}  // namespace ipvsproxier::watch
