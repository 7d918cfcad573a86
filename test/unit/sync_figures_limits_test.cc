// Traffic figures of Services: of how many there are some, and what is remembered.

#include <string>

#include <catch2/catch.hpp>

#include "proxier/sync/figures_reader.h"
#include "test/unit/counted_services.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Protocol;
using test::counting;
using test::kWeb;
using test::scraped;
using test::service_at;
using test::traffic;
using test::web_with;

// A Service with so many ports.
api::Service wide_service(std::size_t ports) {
  auto service = test::web_service();
  service.ports.clear();
  for (std::size_t i = 0; i < ports; ++i)
    service.ports.push_back({.name = "p" + std::to_string(i),
                             .protocol = Protocol::tcp,
                             .port = static_cast<std::uint16_t>(1000 + i),
                             .node_port = 0});
  return service;
}

TEST_CASE("many Services that come and go leave no memory behind for ever") {
  auto daemon = counting();
  // The first is gone for so long that its counters are forgotten.
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  CHECK(scraped(daemon).connections == 10);
  constexpr std::size_t kAtOnce = 512;
  for (std::size_t round = 0; round <= FiguresReader::kMostRemembered / kAtOnce; ++round) {
    model::ClusterState cluster;
    for (std::size_t i = 0; i < kAtOnce; ++i)
      cluster.put(service_at("s" + std::to_string(round * kAtOnce + i),
                             "10.97." + std::to_string(i / 256) + "." + std::to_string(i % 256)));
    daemon.see(cluster);
    CHECK(daemon.scrape()->size() == kAtOnce);
  }
  daemon.see(model::ClusterState{});
  daemon.scrape();
  daemon.see(web_with({test::e1()}));
  CHECK(scraped(daemon).connections == 0);
}

TEST_CASE("a Service with very many ports has figures of some, and others have theirs") {
  auto daemon = counting();
  model::ClusterState cluster;
  cluster.put(wide_service(FiguresReader::kMostOfService + 10));
  cluster.put(service_at("zoo", "10.97.0.1"));
  daemon.see(cluster);
  daemon.wait(1s);
  const auto figures = daemon.scrape();
  CHECK(figures->size() == FiguresReader::kMostOfService + 1);
  CHECK(figures->back().service.name == "zoo");
  CHECK(
      daemon.says("traffic figures of 10 virtual services, the first of Service \"default/web\""));
}

TEST_CASE(
    "a namespace has figures of some ports when there are very many, and others have theirs") {
  auto daemon = counting();
  model::ClusterState cluster;
  auto service = wide_service(FiguresReader::kMostOfService);
  const std::size_t services = FiguresReader::kMostSeries / FiguresReader::kMostOfService + 1;
  for (std::size_t i = 0; i < services; ++i) {
    service.name.name = "wide" + std::to_string(i);
    service.cluster_ips = {test::ip("10.97.0." + std::to_string(i))};
    cluster.put(service);
  }
  daemon.see(cluster);
  const auto most = FiguresReader::kMostSeries * 4 / 5;
  CHECK(daemon.scrape()->size() == most);
  const auto over = services * FiguresReader::kMostOfService - most;
  CHECK(daemon.says("traffic figures of " + std::to_string(over) + " virtual services"));
  service = service_at("late", "10.97.1.1");
  service.name.ns = "other";
  cluster.put(service);
  daemon.see(cluster);
  daemon.wait(10s);
  CHECK(daemon.scrape()->size() == most + 1);
}

}  // namespace
}  // namespace ipvsproxier::sync
