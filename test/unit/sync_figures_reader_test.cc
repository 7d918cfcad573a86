// Traffic figures of Services: counters that never go back, whatever becomes of virtual services.

#include "proxier/sync/figures_reader.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "test/unit/counted_services.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using model::ServiceMetrics;
using netlink::IpvsTraffic;
using netlink::Protocol;
using test::counting;
using test::FakeDaemon;
using test::FakeDaemonSettings;
using test::kE1;
using test::kE2;
using test::kWeb;
using test::scraped;
using test::service_at;
using test::traffic;
using test::web_with;

TEST_CASE("figures of a Service are what the kernel counted for its port") {
  auto daemon = counting();
  daemon.see(web_with({test::e1(), test::e2()}));
  auto expected = traffic(3);
  daemon.ipvs.set_traffic(kWeb, expected);
  daemon.ipvs.set_connections(kWeb, kE1, 1, 2);
  daemon.ipvs.set_connections(kWeb, kE2, 3, 4);
  const auto figures = scraped(daemon);
  CHECK(figures.service == api::NamespacedName{"default", "web"});
  CHECK(figures.kind == "ClusterIP");
  CHECK(figures.connections == 3);
  CHECK(figures.packets_in == expected.packets_in);
  CHECK(figures.packets_out == expected.packets_out);
  CHECK(figures.bytes_in == expected.bytes_in);
  CHECK(figures.bytes_out == expected.bytes_out);
  CHECK(figures.active == 4);
  CHECK(figures.inactive == 6);
  CHECK(figures.serving == 2);
  CHECK(figures.draining == 0);
  CHECK(scraped(daemon) == figures);
}

TEST_CASE("figures tell real servers that drain from those whose weight is 0") {
  auto daemon = counting();
  const auto annotated = [](std::vector<api::Endpoint> endpoints) {
    auto cluster = web_with(std::move(endpoints));
    cluster.services.at({"default", "web"}).annotations = {{"ipvs-proxier/weights", "local:0"}};
    return cluster;
  };
  daemon.see(annotated({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 1, 0);
  daemon.see(annotated({test::e1()}));
  const auto figures = scraped(daemon);
  CHECK(figures.serving == 0);
  CHECK(figures.draining == 1);
  CHECK(figures.weightless == 1);
}

TEST_CASE("what is off or not asked for is not read") {
  auto off = counting(ServiceMetrics::off);
  off.see(web_with({test::e1()}));
  off.wait(100s);
  CHECK(off.ipvs.counter_readings() == 0);

  auto some = counting(ServiceMetrics::annotated);
  auto cluster = web_with({test::e1()});
  cluster.put(service_at("shop", "10.96.0.8"));
  some.see(cluster);
  CHECK(some.scrape()->empty());
  CHECK(some.ipvs.counter_readings() == 0);
  cluster.services.at({"default", "shop"}).annotations = {{"ipvs-proxier/metrics", "true"}};
  some.see(cluster);
  const auto figures = some.scrape();
  REQUIRE(figures);
  REQUIRE(figures->size() == 1);
  CHECK(figures->front().service.name == "shop");
  CHECK(some.ipvs.counter_readings() == 1);
}

TEST_CASE("virtual services that were there before count from now on") {
  auto daemon = counting();
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(1000));
  daemon.restart();
  daemon.see(web_with({test::e1()}));
  daemon.wait(1s);
  daemon.ipvs.set_traffic(kWeb, traffic(1005));
  CHECK(scraped(daemon).connections == 5);
}

TEST_CASE("virtual services that cannot be listed at the start count from their first reading") {
  auto daemon = counting();
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(1000));
  daemon.ipvs.faults.fail("list virtual services", {netlink::ErrorKind::denied, EPERM, ""});
  daemon.restart();
  daemon.see(web_with({test::e1()}));
  CHECK(scraped(daemon).connections == 0);
  daemon.clear_faults();
  daemon.wait(60s);
  daemon.ipvs.set_traffic(kWeb, traffic(1005));
  CHECK(scraped(daemon).connections == 5);
}

TEST_CASE("counters go on when others zero them, remove virtual services or unload the module") {
  auto daemon = counting();
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  CHECK(scraped(daemon).connections == 10);
  daemon.ipvs.set_traffic(kWeb, traffic(2));  // ipvsadm -Z, and 2 more
  CHECK(scraped(daemon).connections == 12);
  daemon.ipvs.vanish();
  CHECK(daemon.scrape()->front().connections == 12);
  daemon.wait(60s);  // it is programmed again
  // More than before: nothing went back.
  daemon.ipvs.set_traffic(kWeb, traffic(20));
  const auto figures = scraped(daemon);
  CHECK(figures.connections == 32);
  CHECK(figures.packets_in == 320);
  CHECK(figures.bytes_out == 320'000);
}

TEST_CASE("counters go on while virtual services of their port are replaced") {
  auto daemon = counting();
  auto cluster = web_with({test::e1()});
  auto& service = cluster.services.at({"default", "web"});
  service.external_ips = {test::ip("192.0.2.1")};
  daemon.see(cluster);
  const netlink::VirtualServiceKey first{test::ip("192.0.2.1"), Protocol::tcp, 80};
  const netlink::VirtualServiceKey second{test::ip("192.0.2.2"), Protocol::tcp, 80};
  const auto external = [&] {
    const auto figures = daemon.scrape();
    REQUIRE(figures);
    REQUIRE(figures->size() == 2);
    CHECK(figures->back().kind == "ExternalIP");
    return figures->back().connections;
  };
  daemon.ipvs.set_traffic(first, traffic(5));
  CHECK(external() == 5);
  daemon.ipvs.set_traffic(first, traffic(7));
  CHECK(external() == 7);
  service.external_ips = {test::ip("192.0.2.2")};
  daemon.see(cluster);
  CHECK_FALSE(daemon.ipvs.contains(first));
  CHECK(external() == 7);
  daemon.ipvs.set_traffic(second, traffic(1));
  CHECK(external() == 8);
  service.external_ips = {test::ip("192.0.2.2"), test::ip("192.0.2.1")};
  daemon.see(cluster);
  daemon.ipvs.set_traffic(first, traffic(100));
  CHECK(external() == 108);
}

TEST_CASE("a Service that is deleted and made again goes on") {
  auto daemon = counting();
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  CHECK(scraped(daemon).connections == 10);
  daemon.see(model::ClusterState{});
  CHECK(daemon.scrape()->empty());
  daemon.see(web_with({test::e1()}));
  CHECK(scraped(daemon).connections == 10);
  daemon.ipvs.set_traffic(kWeb, traffic(4));
  CHECK(scraped(daemon).connections == 14);
}

TEST_CASE("a kernel that does not answer costs a scrape its figures, and the node nothing") {
  auto daemon = counting();
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  CHECK(scraped(daemon).connections == 10);
  daemon.ipvs.faults.fail("read the counters of virtual service " + to_string(kWeb),
                          netlink::Error{netlink::ErrorKind::timeout, ETIMEDOUT, ""});
  const auto runs = daemon.runs();
  CHECK_FALSE(daemon.scrape());
  CHECK(daemon.runs() == runs);
  CHECK(daemon.says("reading the traffic figures of Services failed"));
  // It is not asked again by each scrape.
  const auto readings = daemon.ipvs.counter_readings();
  CHECK_FALSE(daemon.scrape());
  CHECK(daemon.ipvs.counter_readings() == readings);
  daemon.clear_faults();
  daemon.now += FiguresReader::kRestAfterFailure;
  daemon.ipvs.set_traffic(kWeb, traffic(12));
  CHECK(scraped(daemon).connections == 12);
}

TEST_CASE("before the first lists a scrape waits for nothing") {
  auto daemon = counting();
  CHECK_FALSE(daemon.scrape());
}

TEST_CASE("counters of 32 bits go over their end") {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 32U;
  const IpvsTraffic before{.connections = 5,
                           .packets_in = kEnd - 10,
                           .packets_out = 100,
                           .bytes_in = 1'000'000,
                           .bytes_out = 2'000'000,
                           .narrow = true};
  const IpvsTraffic after{.connections = 6,
                          .packets_in = 20,
                          .packets_out = 150,
                          .bytes_in = 1'003'000,
                          .bytes_out = 2'004'000,
                          .narrow = true};
  const auto difference = traffic_between(before, after);
  CHECK(difference.connections == 1);
  CHECK(difference.packets_in == 30);
  CHECK(difference.packets_out == 50);
  CHECK(difference.bytes_in == 3000);
  CHECK(difference.bytes_out == 4000);
  // Bytes have 64 bits: where they went back as well, it began anew.
  auto anew = after;
  anew.bytes_in = 3000;
  CHECK(traffic_between(before, anew).packets_in == 20);
  CHECK(traffic_between(before, anew).bytes_in == 3000);
  // Counters of 64 bits never reach their end.
  auto wide = after;
  wide.narrow = false;
  CHECK(traffic_between(before, wide).packets_in == 20);
  CHECK(traffic_between(before, wide).connections == 6);
}

std::string reading_of(const netlink::VirtualServiceKey& key) {
  return "read the counters of virtual service " + to_string(key);
}

TEST_CASE("a virtual service that cannot be read takes no others' figures") {
  auto daemon = counting();
  auto cluster = web_with({test::e1()});
  cluster.put(service_at("shop", "10.96.0.8"));
  daemon.see(cluster);
  daemon.wait(1s);
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  REQUIRE(daemon.scrape()->size() == 2);
  daemon.ipvs.faults.fail(reading_of(kWeb), {netlink::ErrorKind::malformed, 0, ""});
  for (int i = 0; i < 3; ++i) {
    const auto figures = daemon.scrape();
    REQUIRE(figures);
    REQUIRE(figures->size() == 1);
    CHECK(figures->front().service.name == "shop");
  }
  const auto log = daemon.log();
  const auto told = log.find("cannot be read");
  REQUIRE(told != std::string::npos);
  CHECK(log.find("cannot be read", told + 1) == std::string::npos);
  daemon.clear_faults();
  daemon.ipvs.set_traffic(kWeb, traffic(12));
  const auto figures = daemon.scrape();
  REQUIRE(figures->size() == 2);
  CHECK(figures->back().connections == 12);
}

TEST_CASE("what was counted after the last reading is lost with a virtual service, no more") {
  auto daemon = counting();
  auto cluster = web_with({test::e1()});
  auto& service = cluster.services.at({"default", "web"});
  service.external_ips = {test::ip("192.0.2.1")};
  daemon.see(cluster);
  const netlink::VirtualServiceKey key{test::ip("192.0.2.1"), Protocol::tcp, 80};
  const auto external = [&] {
    const auto figures = daemon.scrape();
    REQUIRE(figures);
    REQUIRE(figures->size() == 2);
    return figures->back().connections;
  };
  daemon.ipvs.set_traffic(key, traffic(5));
  CHECK(external() == 5);
  daemon.ipvs.set_traffic(key, traffic(7));
  const auto readings = daemon.ipvs.counter_readings();
  const auto without = [&] {
    service.external_ips.clear();
    daemon.see(cluster);
    REQUIRE_FALSE(daemon.ipvs.contains(key));
    CHECK(daemon.ipvs.counter_readings() == readings);  // a sync asks for none
    service.external_ips = {test::ip("192.0.2.1")};
  };
  SECTION("it is made again before the next reading") {
    without();
    daemon.see(cluster);
    daemon.ipvs.set_traffic(key, traffic(3));
    CHECK(external() == 8);
  }
  SECTION("it is made again after the next reading") {
    without();
    CHECK(daemon.scrape()->size() == 1);
    daemon.see(cluster);
    daemon.ipvs.set_traffic(key, traffic(300));
    CHECK(external() == 305);
  }
}

TEST_CASE("a Service that is to be counted, for the first time or again, counts from then on") {
  auto daemon = counting(ServiceMetrics::annotated);
  auto cluster = web_with({test::e1()});
  auto& annotations = cluster.services.at({"default", "web"}).annotations;
  daemon.see(cluster);
  daemon.wait(1s);
  daemon.ipvs.set_traffic(kWeb, traffic(100));
  CHECK(daemon.scrape()->empty());
  annotations = {{"ipvs-proxier/metrics", "true"}};
  daemon.see(cluster);
  CHECK(scraped(daemon).connections == 0);
  daemon.ipvs.set_traffic(kWeb, traffic(104));
  CHECK(scraped(daemon).connections == 4);
  annotations.clear();
  daemon.see(cluster);
  CHECK(daemon.scrape()->empty());
  daemon.ipvs.set_traffic(kWeb, traffic(200));
  annotations = {{"ipvs-proxier/metrics", "true"}};
  daemon.see(cluster);
  CHECK(scraped(daemon).connections == 4);
  daemon.ipvs.set_traffic(kWeb, traffic(201));
  CHECK(scraped(daemon).connections == 5);
}

TEST_CASE("a Service that comes back to a virtual service that lingers counts from then on") {
  FakeDaemonSettings settings{.service_metrics = ServiceMetrics::annotated};
  settings.options.drain_deleted_services = true;
  FakeDaemon daemon(std::move(settings));
  auto cluster = web_with({test::e1()});
  daemon.see(cluster);
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  daemon.ipvs.set_traffic(kWeb, traffic(100));
  CHECK(daemon.scrape()->empty());
  daemon.see(model::ClusterState{});
  REQUIRE(daemon.ipvs.contains(kWeb));
  CHECK(daemon.scrape()->empty());
  cluster.services.at({"default", "web"}).annotations = {{"ipvs-proxier/metrics", "true"}};
  daemon.see(cluster);
  CHECK(scraped(daemon).connections == 0);
  daemon.ipvs.set_traffic(kWeb, traffic(101));
  CHECK(scraped(daemon).connections == 1);
}

TEST_CASE(
    "what a virtual service counts after others removed it and it came again is all counted") {
  auto daemon = counting();
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  CHECK(scraped(daemon).connections == 10);
  daemon.ipvs.vanish();
  CHECK(scraped(daemon).connections == 10);  // and it is seen that it is gone
  // Others add it as it was.
  const auto planned = daemon.planned().services.at(kWeb).service;
  const std::vector<netlink::IpvsOp> ops{netlink::AddService{planned}};
  REQUIRE(daemon.ipvs.apply(ops).front());
  daemon.ipvs.set_traffic(kWeb, traffic(30));
  CHECK(scraped(daemon).connections == 40);
}

TEST_CASE("virtual services with many real servers are read a few at a time") {
  auto daemon = counting();
  std::vector<api::Endpoint> endpoints;
  for (std::size_t i = 0; i < FiguresReader::kServersALook * FiguresReader::kServicesAStep; ++i)
    endpoints.push_back(
        test::endpoint("10.244." + std::to_string(i / 256) + "." + std::to_string(i % 256), "n1"));
  auto cluster = web_with(endpoints);
  cluster.put(service_at("shop", "10.96.0.200"));
  daemon.see(cluster);
  daemon.wait(1s);
  const auto listings = daemon.ipvs.server_listings();
  daemon.restart();
  daemon.see(cluster);
  const auto after_start = daemon.ipvs.server_listings();
  daemon.wait(1s);  // the silent reading needs no real servers
  CHECK(daemon.ipvs.server_listings() == after_start);
  CHECK(after_start > listings);
  const auto begin = daemon.now;
  REQUIRE(daemon.scrape(1s));
  // One step for each, one for those that linger, one to hand over.
  CHECK(daemon.now - begin == 4s);
}

TEST_CASE("the first scrape need not wait for a rest after the start") {
  auto daemon = counting();
  model::ClusterState cluster;
  for (int i = 0; i < 100; ++i)
    cluster.put(service_at("s" + std::to_string(i), "10.97.0." + std::to_string(i)));
  daemon.see(cluster);
  for (int i = 0; i < 20; ++i) {
    daemon.run();
    daemon.now += 1s;
  }
  CHECK(daemon.scrape());
}

TEST_CASE("a virtual service that lingers for its connections is still counted") {
  FakeDaemonSettings settings{.service_metrics = ServiceMetrics::all};
  settings.options.drain_deleted_services = true;
  FakeDaemon daemon(std::move(settings));
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  daemon.ipvs.set_traffic(kWeb, traffic(10));
  CHECK(scraped(daemon).connections == 10);
  daemon.see(model::ClusterState{});
  REQUIRE(daemon.ipvs.contains(kWeb));
  daemon.ipvs.set_traffic(kWeb, traffic(10, 20));
  const auto figures = scraped(daemon);
  CHECK(figures.packets_in == 200);
  CHECK(figures.active == 1);
  CHECK(figures.draining == 1);
}

TEST_CASE("reading figures goes on between syncs, in parts") {
  auto daemon = counting();
  model::ClusterState cluster;
  constexpr std::size_t kServices = 100;
  for (std::size_t i = 0; i < kServices; ++i)
    cluster.put(service_at("s" + std::to_string(i), "10.97.0." + std::to_string(i)));
  daemon.see(cluster);
  daemon.wait(1s);  // where counters stand is read at the start
  const auto before = daemon.ipvs.counter_readings();
  CHECK(before == kServices);
  const auto runs = daemon.runs();
  CHECK(daemon.scrape()->size() == kServices);
  CHECK(daemon.ipvs.counter_readings() == before + kServices);
  CHECK(daemon.runs() == runs);  // none counts as a sync
}

TEST_CASE("a reading of figures that took long is not followed by another at once") {
  auto daemon = counting();
  model::ClusterState cluster;
  for (int i = 0; i < 100; ++i)
    cluster.put(service_at("s" + std::to_string(i), "10.97.0." + std::to_string(i)));
  daemon.see(cluster);
  daemon.wait(1s);
  REQUIRE(daemon.scrape(1s));  // seven parts, one for those that linger, and one to hand it over
  const auto readings = daemon.ipvs.counter_readings();
  CHECK_FALSE(daemon.scrape());
  CHECK(daemon.ipvs.counter_readings() == readings);
  daemon.now += 8s;
  CHECK(daemon.scrape());
  CHECK(daemon.scrape());  // no time passed in that one
}

}  // namespace
}  // namespace ipvsproxier::sync
