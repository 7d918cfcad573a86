#include <chrono>
#include <memory>
#include <set>
#include <string>

#include <spdlog/sinks/null_sink.h>
#include <catch2/catch.hpp>

#include "proxier/serve/node_port_health.h"
#include "test/support/raw_http.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::serve {
namespace {

using netlink::Family;
using std::chrono::seconds;
using test::http_get;
using test::RawHttp;

const api::NamespacedName kShop{"shop", "front"};
const api::NamespacedName kBank{"bank", "door"};

struct NodePortFixture {
  spdlog::logger logger{"test", std::make_shared<spdlog::sinks::null_sink_mt>()};
  test::TestClock clock;
  Status status{{}, clock.clock()};
  HttpServer server{logger};
  NodePortHealth health{server, status};

  NodePortFixture() { status.sync_succeeded(Family::ipv4); }

  // A port that nobody listens on, in either family.
  std::uint16_t free_port() {
    const auto listening = server.listen({.address = netlink::IpAddress::any(Family::ipv4)},
                                         [](const HttpRequest&) { return plain_text(200, ""); });
    REQUIRE(listening);
    server.close(listening->id);
    return listening->port;
  }
};

TEST_CASE("the body is kube-proxy's") {
  auto answer = service_health({"ns", "svc"}, 1, true);
  CHECK(answer.status == 200);
  CHECK(answer.content_type == "application/json");
  CHECK(answer.headers ==
        std::vector<std::pair<std::string, std::string>>{
            {"X-Content-Type-Options", "nosniff"}, {"X-Load-Balancing-Endpoint-Weight", "1"}});
  CHECK(answer.body ==
        "{\n\t\"service\": {\n\t\t\"namespace\": \"ns\",\n\t\t\"name\": \"svc\"\n\t},\n"
        "\t\"localEndpoints\": 1,\n\t\"serviceProxyHealthy\": true\n}");
  answer = service_health({"ns", "svc"}, 0, true);
  CHECK(answer.status == 503);
  CHECK(answer.headers.back().second == "0");
  answer = service_health({"a\"b", "\n"}, 12, false);
  CHECK(answer.status == 503);
  CHECK(answer.headers.back().second == "12");
  CHECK(answer.body ==
        "{\n\t\"service\": {\n\t\t\"namespace\": \"a\\\"b\",\n\t\t\"name\": \"\\n\"\n\t},\n"
        "\t\"localEndpoints\": 12,\n\t\"serviceProxyHealthy\": false\n}");
}

TEST_CASE_METHOD(NodePortFixture,
                 "a Service's server tells its endpoints, for each family its own") {
  const auto port = free_port();
  CHECK(health.update({.services = {{kShop, ServiceHealth{port, 2, 0}}}}).empty());
  auto answer = http_get(port, "/any/path?x", "POST");
  CHECK(answer.status == 200);
  CHECK(answer.headers["Content-Type"] == "application/json");
  CHECK(answer.headers["X-Content-Type-Options"] == "nosniff");
  CHECK(answer.headers["X-Load-Balancing-Endpoint-Weight"] == "2");
  CHECK(answer.body == service_health(kShop, 2, true).body);
  answer = http_get(port, "/", "GET", "::1");
  CHECK(answer.status == 503);
  CHECK(answer.body == service_health(kShop, 0, true).body);
  CHECK(http_get(port, "/", "GET", "127.0.0.2").status == 200);  // every address

  RawHttp kept(port);
  CHECK(kept.get("/").status == 200);
  CHECK(health.update({.services = {{kShop, ServiceHealth{port, 0, 7}}}}).empty());
  CHECK(kept.get("/").status == 503);  // the same server
  CHECK(http_get(port, "/", "GET", "::1").headers["X-Load-Balancing-Endpoint-Weight"] == "7");
  CHECK(server.counts().listeners == 2);
}

TEST_CASE_METHOD(NodePortFixture,
                 "an unhealthy proxy makes them red, an ineligible node does not") {
  const auto port = free_port();
  health.update({.services = {{kShop, ServiceHealth{.port = port, .ipv4_endpoints = 1}}}});
  CHECK_FALSE(status.health().node_eligible);
  CHECK(http_get(port, "/").status == 200);
  status.sync_requested(Family::ipv4);
  clock.advance(seconds(60));
  const auto answer = http_get(port, "/");
  CHECK(answer.status == 503);
  CHECK(answer.body == service_health(kShop, 1, false).body);
}

TEST_CASE_METHOD(NodePortFixture, "families and Services come and go") {
  const auto port = free_port();
  health.update({.services = {{kShop, ServiceHealth{.port = port, .ipv6_endpoints = 1}}}});
  CHECK_FALSE(RawHttp(port).connected());
  CHECK(http_get(port, "/", "GET", "::1").status == 200);
  health.update({.services = {{kShop, ServiceHealth{.port = port, .ipv4_endpoints = 1}}}});
  CHECK(http_get(port, "/").status == 200);
  CHECK_FALSE(RawHttp(port, "::1").connected());
  RawHttp kept(port);
  CHECK(kept.get("/").status == 200);
  health.update({.services = {{kShop, std::nullopt}}});
  CHECK(kept.ended(seconds(10)));
  CHECK_FALSE(RawHttp(port).connected());
  CHECK(server.counts().listeners == 0);
}

TEST_CASE_METHOD(NodePortFixture, "a port passes from one Service to another in one update") {
  const auto port = free_port();
  const auto other = free_port();
  health.update({.services = {{kShop, ServiceHealth{.port = port, .ipv4_endpoints = 1}}}});
  CHECK(health
            .update({.services = {{kBank, ServiceHealth{.port = port, .ipv4_endpoints = 3}},
                                  {kShop, ServiceHealth{.port = other, .ipv4_endpoints = 2}}}})
            .empty());
  CHECK(http_get(port, "/").body == service_health(kBank, 3, true).body);
  CHECK(http_get(other, "/").body == service_health(kShop, 2, true).body);
}

TEST_CASE_METHOD(NodePortFixture, "a whole list ends what it does not name") {
  const auto port = free_port();
  const auto other = free_port();
  health.update({.services = {{kShop, ServiceHealth{.port = port, .ipv4_endpoints = 1}},
                              {kBank, ServiceHealth{.port = other, .ipv4_endpoints = 1}}}});
  health.update(
      {.whole = true, .services = {{kBank, ServiceHealth{.port = other, .ipv4_endpoints = 2}}}});
  CHECK_FALSE(RawHttp(port).connected());
  CHECK(http_get(other, "/").body == service_health(kBank, 2, true).body);
}

TEST_CASE_METHOD(NodePortFixture,
                 "what cannot be opened is told, and tried again at the next update") {
  const auto port = free_port();
  const auto taken =
      server.listen({netlink::IpAddress::any(Family::ipv6), port, ListenNetwork::one_family},
                    [](const HttpRequest&) { return plain_text(200, "taken"); });
  REQUIRE(taken);
  auto failures = health.update({.services = {{kShop, ServiceHealth{port, 1, 1}}}});
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].service == kShop);
  CHECK(failures[0].port == port);
  CHECK(failures[0].error.sys_errno == EADDRINUSE);
  CHECK(failures[0].error.where == "listen on [::]:" + std::to_string(port));
  CHECK(health.any_failed());
  CHECK(http_get(port, "/").status == 200);
  CHECK(http_get(port, "/", "GET", "::1").body == "taken");
  CHECK(health.update().size() == 1);
  // Counts that change meanwhile are not lost.
  CHECK(health.update({.services = {{kShop, ServiceHealth{port, 1, 5}}}}).size() == 1);
  server.close(taken->id);
  CHECK(health.update().empty());
  CHECK_FALSE(health.any_failed());
  CHECK(http_get(port, "/", "GET", "::1").body == service_health(kShop, 5, true).body);
}

TEST_CASE_METHOD(NodePortFixture, "a Service that is gone is not tried again") {
  const auto port = free_port();
  health.update({.services = {{kBank, ServiceHealth{.port = port, .ipv4_endpoints = 1}}}});
  CHECK(health.update({.services = {{kShop, ServiceHealth{.port = port, .ipv4_endpoints = 1}}}})
            .size() == 1);
  CHECK(health.update({.services = {{kShop, std::nullopt}}}).empty());
  CHECK_FALSE(health.any_failed());
}

TEST_CASE_METHOD(NodePortFixture, "chosen addresses are listened on all together or not at all") {
  const auto first = netlink::IpAddress::v4(0x7f000001);
  const auto second = netlink::IpAddress::v4(0x7f000002);
  const auto port = free_port();
  CHECK(health
            .update({.services = {{kShop, ServiceHealth{port, 1, 1}}},
                     .addresses = NodePortHealthAddresses{.ipv4 = std::set{first, second},
                                                          .ipv6 = std::set<netlink::IpAddress>{}}})
            .empty());
  CHECK(http_get(port, "/").status == 200);
  CHECK(http_get(port, "/", "GET", "127.0.0.2").status == 200);
  CHECK_FALSE(RawHttp(port, "127.0.0.3").connected());
  CHECK_FALSE(RawHttp(port, "::1").connected());

  const auto other = free_port();
  const auto taken =
      server.listen({second, other}, [](const HttpRequest&) { return plain_text(200, "taken"); });
  REQUIRE(taken);
  const auto failures =
      health.update({.services = {{kBank, ServiceHealth{.port = other, .ipv4_endpoints = 1}}}});
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].error.where == "listen on 127.0.0.2:" + std::to_string(other));
  CHECK_FALSE(RawHttp(other).connected());
}

TEST_CASE_METHOD(NodePortFixture, "servers move with the addresses of node ports") {
  const auto first = netlink::IpAddress::v4(0x7f000001);
  const auto second = netlink::IpAddress::v4(0x7f000002);
  const auto third = netlink::IpAddress::v4(0x7f000003);
  const auto port = free_port();
  health.update({.services = {{kShop, ServiceHealth{port, 1, 1}}}});
  CHECK(http_get(port, "/", "GET", "127.0.0.3").status == 200);

  CHECK(health.update({.addresses = NodePortHealthAddresses{.ipv4 = std::set{first, second}}})
            .empty());
  CHECK_FALSE(RawHttp(port, "127.0.0.3").connected());
  CHECK(http_get(port, "/", "GET", "::1").status == 200);
  RawHttp kept(port, "127.0.0.2");
  CHECK(kept.get("/").status == 200);

  const auto taken =
      server.listen({third, port}, [](const HttpRequest&) { return plain_text(200, "taken"); });
  REQUIRE(taken);
  const NodePortHealthAddresses moved{.ipv4 = std::set{second, third}};
  CHECK(health.update({.addresses = moved}).size() == 1);
  CHECK(health.any_failed());
  CHECK_FALSE(RawHttp(port).connected());
  CHECK(kept.get("/").status == 200);  // what listened before still does
  server.close(taken->id);
  CHECK(health.update().empty());
  CHECK_FALSE(health.any_failed());
  CHECK(http_get(port, "/", "GET", "127.0.0.3").status == 200);
  CHECK(kept.get("/").status == 200);

  CHECK(health.update({.addresses = NodePortHealthAddresses{}}).empty());
  CHECK(http_get(port, "/").status == 200);
}

// The second address of a load balancer is not on this node.
TEST_CASE_METHOD(NodePortFixture, "a Service's load balancers are answered with any node ports") {
  const auto node = netlink::IpAddress::v4(0x7f000001);
  const auto balancer = netlink::IpAddress::v4(0x7f000002);
  const auto absent = *netlink::IpAddress::parse("192.0.2.9");
  const auto absent6 = *netlink::IpAddress::parse("2001:db8::9");
  const auto port = free_port();
  ServiceHealth front{port, 1, 1, {balancer, absent, absent6}};
  const NodePortHealthAddresses chosen{.ipv4 = std::set{node},
                                       .ipv6 = std::set<netlink::IpAddress>{}};
  CHECK(health.update({.services = {{kShop, front}}, .addresses = chosen}).empty());
  CHECK(server.counts().listeners == 4);
  CHECK(http_get(port, "/").status == 200);
  CHECK(http_get(port, "/", "GET", "127.0.0.2").status == 200);
  CHECK_FALSE(RawHttp(port, "127.0.0.3").connected());

  front.load_balancers = {netlink::IpAddress::v4(0x7f000003)};
  CHECK(health.update({.services = {{kShop, front}}}).empty());
  CHECK(server.counts().listeners == 2);
  CHECK(http_get(port, "/", "GET", "127.0.0.3").status == 200);
  CHECK_FALSE(RawHttp(port, "127.0.0.2").connected());

  // All addresses hold those of load balancers.
  CHECK(health.update({.addresses = NodePortHealthAddresses{}}).empty());
  CHECK(server.counts().listeners == 2);
  CHECK(http_get(port, "/", "GET", "127.0.0.3").status == 200);
}

TEST_CASE_METHOD(NodePortFixture,
                 "an address of a load balancer that cannot be bound costs itself") {
  const auto node = *netlink::IpAddress::parse("::1");
  const auto multicast = *netlink::IpAddress::parse("ff0e::1");
  const auto port = free_port();
  const NodePortHealthAddresses chosen{.ipv4 = std::set<netlink::IpAddress>{},
                                       .ipv6 = std::set{node}};
  const ServiceHealth front{port, 1, 1, {multicast}};
  const auto failures = health.update({.services = {{kShop, front}}, .addresses = chosen});
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].error.where == "listen on [ff0e::1]:" + std::to_string(port));
  CHECK(http_get(port, "/", "GET", "::1").status == 200);
}

TEST_CASE_METHOD(NodePortFixture, "when it goes its servers go") {
  const auto port = free_port();
  {
    NodePortHealth inner(server, status);
    inner.update({.services = {{kShop, ServiceHealth{port, 1, 1}}}});
    CHECK(http_get(port, "/").status == 200);
  }
  CHECK_FALSE(RawHttp(port).connected());
  CHECK(server.counts().listeners == 0);
}

}  // namespace
}  // namespace ipvsproxier::serve
