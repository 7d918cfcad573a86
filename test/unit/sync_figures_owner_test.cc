// Traffic figures of Services: whose the counters of a virtual service are that changes hands.

#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "test/unit/counted_services.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Protocol;
using test::counting;
using test::service_at;
using test::traffic;

TEST_CASE("a virtual service that is made again for another Service counts for that one") {
  auto daemon = counting();
  auto first = service_at("first", "10.96.0.1");
  auto second = service_at("second", "10.96.0.2");
  const std::vector address{test::ip("192.0.2.1")};
  const auto see = [&] {
    model::ClusterState cluster;
    cluster.put(first);
    cluster.put(second);
    daemon.see(cluster);
  };
  const netlink::VirtualServiceKey key{address.front(), Protocol::tcp, 80};
  first.external_ips = address;
  see();
  daemon.wait(1s);
  daemon.scrape();
  daemon.ipvs.set_traffic(key, traffic(10));
  daemon.scrape();
  first.external_ips.clear();
  see();
  REQUIRE_FALSE(daemon.ipvs.contains(key));
  second.external_ips = address;
  see();
  daemon.ipvs.set_traffic(key, traffic(4));
  const auto figures = daemon.scrape();
  REQUIRE(figures);
  CHECK(figures->back().service.name == "second");
  CHECK(figures->back().kind == "ExternalIP");
  CHECK(figures->back().connections == 4);
}

TEST_CASE("traffic before an address changes hands is of the Service that had it") {
  auto daemon = counting();
  model::ClusterState cluster;
  auto first = service_at("first", "10.96.0.1");
  auto second = service_at("second", "10.96.0.2");
  first.external_ips = {test::ip("192.0.2.1")};
  cluster.put(first);
  cluster.put(second);
  daemon.see(cluster);
  const netlink::VirtualServiceKey key{test::ip("192.0.2.1"), Protocol::tcp, 80};
  daemon.wait(1s);
  daemon.scrape();
  daemon.ipvs.set_traffic(key, traffic(10));
  std::swap(first.external_ips, second.external_ips);
  model::ClusterState swapped;
  swapped.put(first);
  swapped.put(second);
  daemon.see(swapped);
  REQUIRE(daemon.ipvs.contains(key));
  const auto of_second = [&] {
    const auto figures = daemon.scrape();
    REQUIRE(figures);
    REQUIRE(figures->size() == 3);
    CHECK(figures->back().service.name == "second");
    CHECK(figures->back().kind == "ExternalIP");
    return figures->back().connections;
  };
  CHECK(of_second() == 0);
  daemon.ipvs.set_traffic(key, traffic(11));
  CHECK(of_second() == 1);
}

}  // namespace
}  // namespace ipvsproxier::sync
