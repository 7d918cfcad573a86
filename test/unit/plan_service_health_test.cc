#include "proxier/plan/service_health.h"

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using test::ip;
using Counts = std::map<Family, std::uint32_t>;

const std::vector<Family> kBoth(netlink::kFamilies.begin(), netlink::kFamilies.end());

api::Service balanced() {
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.external_policy_local = true;
  web.health_check_node_port = 31000;
  return web;
}

TEST_CASE("ready endpoints on this node are counted by address") {
  auto web = balanced();
  web.cluster_ips.push_back(ip("fd00:96::9"));
  web.ip_families.push_back(Family::ipv6);
  auto not_ready = test::endpoint("10.244.0.4", "n1");
  not_ready.ready = false;
  auto cluster =
      test::cluster_of({web, test::slice_of(web, 8080, {test::e1(), test::e2(), not_ready}),
                        test::slice_of(web, 9090, {test::e1()}, "2")});
  const auto health = service_health(web.name, cluster, kBoth, "n1");
  REQUIRE(health);
  CHECK(health->port == 31000);
  CHECK(health->local_endpoints == Counts{{Family::ipv4, 1}, {Family::ipv6, 0}});
  CHECK(service_health(web.name, cluster, {Family::ipv4}, "n3")->local_endpoints ==
        Counts{{Family::ipv4, 0}});
  cluster.put(test::slice_of(web, 8080, {test::endpoint("10.244.0.9", "n1")}, "3"));
  cluster.put(test::slice_of(web, 8080, {test::endpoint("fd00:244::9", "n1")}, "4"));
  CHECK(service_health(web.name, cluster, kBoth, "n1")->local_endpoints ==
        Counts{{Family::ipv4, 2}, {Family::ipv6, 1}});
}

TEST_CASE("a health server knows the first addresses of its load balancers") {
  auto web = balanced();
  for (int i = 1; i <= 20; ++i) web.load_balancer_ips.push_back(ip("192.0.2." + std::to_string(i)));
  const auto health = service_health(web.name, test::cluster_of({web}), kBoth, "n1");
  REQUIRE(health);
  CHECK(health->load_balancers.size() == 16);
  CHECK(health->load_balancers.contains(ip("192.0.2.1")));
}

TEST_CASE("only load balancers that keep client addresses have a health server") {
  auto web = balanced();
  CHECK_FALSE(service_health(web.name, model::ClusterState{}, kBoth, "n1"));
  CHECK(service_health(web.name, test::cluster_of({web}), kBoth, "n1"));
  CHECK_FALSE(service_health(web.name, test::cluster_of({web}), {Family::ipv6}, "n1"));
  SECTION("policy Cluster") {
    web.external_policy_local = false;
  }
  SECTION("no port") {
    web.health_check_node_port = 0;
  }
  SECTION("another type") {
    web.type = api::ServiceType::node_port;
  }
  CHECK_FALSE(service_health(web.name, test::cluster_of({web}), kBoth, "n1"));
}

}  // namespace
}  // namespace ipvsproxier::plan
