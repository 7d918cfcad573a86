// What leaves: real servers that drain, and virtual services whose connections may finish.

#include <optional>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Protocol;
using test::FakeDaemon;
using test::ip;
using test::kE1;
using test::kE2;
using test::kWeb;
using test::web_with;

TEST_CASE("a leaving real server drains, is looked at, and goes when it is idle") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 1, 2);
  CHECK(daemon.see(web_with({test::e1()})).written == Written{.ipvs = 1, .elements = 0});
  CHECK(daemon.weights(kWeb) ==
        std::map<netlink::RealServerKey, std::uint32_t>{{kE1, 1}, {kE2, 0}});
  daemon.wait(20s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  daemon.ipvs.set_connections(kWeb, kE2, 0, 1);
  daemon.wait(20s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  daemon.ipvs.set_connections(kWeb, kE2, 0, 0);
  daemon.wait(6s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
  const auto before = daemon.writes();
  daemon.wait(100s);
  CHECK(daemon.writes() == before);
}

TEST_CASE("a leaving real server of SCTP drains as one of TCP, within the drain timeout") {
  const netlink::VirtualServiceKey key{ip("10.96.0.9"), Protocol::sctp, 80};
  FakeDaemon daemon({.drain = {.timeout = 60s}});
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::sctp));
  daemon.ipvs.set_connections(key, kE2, 2, 0);
  CHECK(daemon.see(web_with({test::e1()}, Protocol::sctp)).written == Written{.ipvs = 1});
  CHECK(daemon.weights(key) == std::map<netlink::RealServerKey, std::uint32_t>{{kE1, 1}, {kE2, 0}});
  daemon.wait(50s);
  CHECK(daemon.weights(key).contains(kE2));
  daemon.wait(15s);
  CHECK_FALSE(daemon.weights(key).contains(kE2));
}

TEST_CASE("an idle real server goes with the first look") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.see(web_with({test::e1()}));
  CHECK(daemon.weights(kWeb).contains(kE2));
  daemon.wait(3s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
}

TEST_CASE("removals wait for other changes, but not for ever") {
  FakeDaemon daemon;
  auto cluster = web_with({test::e1(), test::e2()});
  daemon.see(cluster);
  cluster = web_with({test::e1()});
  daemon.see(cluster);
  for (int second = 1; second <= 6; ++second) {
    daemon.wait(1s);
    INFO(second << " s");
    CHECK(daemon.weights(kWeb).contains(kE2) == (second < 6));
    cluster.services.at({"default", "web"}).affinity_seconds = 100 + second;
    daemon.see(cluster);
  }
}

TEST_CASE("a drain may be bounded") {
  DrainTimes times;
  times.timeout = 30s;
  FakeDaemon daemon({.drain = times});
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 5, 0);
  daemon.see(web_with({test::e1()}));
  daemon.wait(29s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  daemon.wait(1s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
}

TEST_CASE("a Service bounds its drains by itself, also once it is deleted") {
  DrainTimes times;
  times.timeout = 300s;
  plan::PlannerOptions options{.families = {netlink::Family::ipv4}};
  options.drain_deleted_services = true;
  FakeDaemon daemon({.drain = times, .options = options});
  const auto with_limit = [](std::vector<api::Endpoint> endpoints, const std::string& limit) {
    auto cluster = web_with(std::move(endpoints));
    cluster.services.at({"default", "web"}).annotations = {{"ipvs-proxier/drain-timeout", limit}};
    return cluster;
  };
  daemon.see(with_limit({test::e1(), test::e2()}, "20s"));
  daemon.ipvs.set_connections(kWeb, kE1, 5, 0);
  daemon.ipvs.set_connections(kWeb, kE2, 5, 0);
  daemon.see(with_limit({test::e1()}, "20s"));
  daemon.wait(19s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  // A longer limit counts from the beginning of the drain.
  daemon.see(with_limit({test::e1()}, "40s"));
  daemon.wait(20s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  daemon.wait(1s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
  daemon.see(model::ClusterState{});
  daemon.wait(39s);
  CHECK(daemon.weights(kWeb).contains(kE1));
  daemon.wait(1s);
  CHECK_FALSE(daemon.ipvs.contains(kWeb));
}

TEST_CASE("the node's limit of drains bounds what Services ask for") {
  DrainTimes times;
  times.timeout = 30s;
  for (const auto* asked : {"0s", "31s", "10m", "2562047h47m16.85s"}) {
    INFO(asked);
    FakeDaemon daemon({.drain = times});
    auto cluster = web_with({test::e1(), test::e2()});
    cluster.services.at({"default", "web"}).annotations = {{"ipvs-proxier/drain-timeout", asked}};
    daemon.see(cluster);
    daemon.ipvs.set_connections(kWeb, kE2, 5, 0);
    auto less = web_with({test::e1()});
    less.services = cluster.services;
    daemon.see(less);
    daemon.wait(29s);
    CHECK(daemon.weights(kWeb).contains(kE2));
    daemon.wait(1s);
    CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
  }
}

TEST_CASE("without a limit of the node a Service's own counts, which may be none") {
  FakeDaemon daemon;
  auto cluster = web_with({test::e1(), test::e2()});
  cluster.services.at({"default", "web"}).annotations = {{"ipvs-proxier/drain-timeout", "0s"}};
  daemon.see(cluster);
  daemon.ipvs.set_connections(kWeb, kE2, 5, 0);
  auto less = web_with({test::e1()});
  less.services = cluster.services;
  daemon.see(less);
  daemon.wait(2h);
  CHECK(daemon.weights(kWeb).contains(kE2));
  // Longer than the clock can tell.
  auto& asked = less.services.at({"default", "web"}).annotations.front().value;
  asked = "2562047h47m16.85s";
  daemon.see(less);
  daemon.wait(60s);
  CHECK(daemon.weights(kWeb).contains(kE2));
  asked = "10s";
  daemon.see(less);
  daemon.wait(6s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
}

TEST_CASE("an endpoint that returns gets its weight back in place and is not removed",
          "[item-10]") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 1, 0);
  daemon.see(web_with({test::e1()}));
  CHECK(daemon.see(web_with({test::e1(), test::e2()})).written == Written{.ipvs = 1});
  CHECK(daemon.weights(kWeb).at(kE2) == 1);
  daemon.ipvs.set_connections(kWeb, kE2, 0, 0);
  daemon.wait(100s);
  CHECK(daemon.weights(kWeb).at(kE2) == 1);
}

TEST_CASE("a deleted Service is cut off at once unless its connections may finish") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  daemon.see(model::ClusterState{});
  CHECK_FALSE(daemon.ipvs.contains(kWeb));
  CHECK_FALSE(daemon.is_bound("10.96.0.9"));
}

// A daemon that lets connections of deleted Services finish.
test::FakeDaemonSettings patient(std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
  test::FakeDaemonSettings settings;
  settings.options.drain_deleted_services = true;
  settings.drain.timeout = timeout;
  return settings;
}

bool refuses_new(const FakeDaemon& daemon, const char* address) {
  return daemon.sets.contains("KUBE-IPVS-IPS", ipset::IpElement{ip(address)});
}

TEST_CASE("nothing of a deleted Service stays for more than an hour, whatever it asked for") {
  for (const auto* asked : {"", "0s", "100h"}) {
    INFO(asked);
    FakeDaemon daemon(patient());
    auto cluster = web_with({test::e1()});
    auto& web = cluster.services.at({"default", "web"});
    web.external_ips = {ip("198.51.100.8")};
    if (*asked != 0) web.annotations = {{"ipvs-proxier/drain-timeout", asked}};
    const netlink::VirtualServiceKey external{ip("198.51.100.8"), Protocol::tcp, 80};
    daemon.see(cluster);
    daemon.ipvs.set_connections(external, kE1, 1, 0);
    daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
    // One address is taken away, then all of the Service is.
    web.external_ips.clear();
    daemon.see(cluster);
    daemon.wait(30min);
    CHECK(daemon.is_bound("198.51.100.8"));
    daemon.see(model::ClusterState{});
    daemon.wait(30min);
    CHECK_FALSE(daemon.ipvs.contains(external));
    CHECK_FALSE(daemon.is_bound("198.51.100.8"));
    CHECK(daemon.ipvs.contains(kWeb));
    daemon.wait(30min);
    CHECK_FALSE(daemon.ipvs.contains(kWeb));
  }
}

TEST_CASE("a deleted Service's connections may finish; then all of it goes", "[item-22]") {
  FakeDaemon daemon(patient());
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  daemon.see(model::ClusterState{});
  CHECK(daemon.weights(kWeb) ==
        std::map<netlink::RealServerKey, std::uint32_t>{{kE1, 0}, {kE2, 0}});
  CHECK(daemon.sets.is_empty("KUBE-CLUSTER-IP"));
  daemon.wait(40s);  // also past a reading of the kernel
  CHECK(daemon.weights(kWeb) == std::map<netlink::RealServerKey, std::uint32_t>{{kE1, 0}});
  CHECK(daemon.is_bound("10.96.0.9"));
  CHECK(refuses_new(daemon, "10.96.0.9"));
  daemon.restart();
  CHECK(daemon.see(model::ClusterState{}).empty());
  CHECK(daemon.weights(kWeb).contains(kE1));

  daemon.ipvs.set_connections(kWeb, kE1, 0, 0);
  daemon.wait(6s);
  CHECK_FALSE(daemon.ipvs.contains(kWeb));
  CHECK_FALSE(daemon.is_bound("10.96.0.9"));
  CHECK_FALSE(refuses_new(daemon, "10.96.0.9"));
  const auto before = daemon.writes();
  daemon.wait(100s);
  CHECK(daemon.writes() == before);
}

TEST_CASE("a deleted Service without endpoints, or of UDP, goes at once") {
  FakeDaemon daemon(patient());
  auto cluster = web_with({});
  daemon.see(cluster);
  daemon.see(model::ClusterState{});
  CHECK_FALSE(daemon.ipvs.contains(kWeb));
  cluster = web_with({test::e1()});
  cluster.services.at({"default", "web"}).ports[0].protocol = Protocol::udp;
  test::edit_slice(cluster.slices.at({"default", "web"}), "web-1",
                   [](auto& slice) { slice.ports[0].protocol = Protocol::udp; });
  daemon.see(cluster);
  const netlink::VirtualServiceKey key{ip("10.96.0.9"), Protocol::udp, 80};
  REQUIRE(daemon.weights(key).size() == 1);
  daemon.see(model::ClusterState{});
  CHECK_FALSE(daemon.ipvs.contains(key));
  CHECK_FALSE(daemon.is_bound("10.96.0.9"));
}

TEST_CASE("a Service that returns while its connections finish is used again in place",
          "[item-9]") {
  FakeDaemon daemon(patient());
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  daemon.see(model::ClusterState{});
  CHECK(daemon.see(web_with({test::e1()})).written.ipvs == 1);
  CHECK(daemon.weights(kWeb).at(kE1) == 1);
  daemon.ipvs.set_connections(kWeb, kE1, 0, 0);
  daemon.wait(100s);
  CHECK(daemon.weights(kWeb).at(kE1) == 1);
}

TEST_CASE("the connections of a deleted Service finish within the drain timeout") {
  FakeDaemon daemon(patient(30s));
  daemon.see(web_with({test::e1()}));
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  daemon.see(model::ClusterState{});
  daemon.wait(29s);
  CHECK(daemon.is_bound("10.96.0.9"));
  daemon.wait(2s);
  CHECK_FALSE(daemon.ipvs.contains(kWeb));
  CHECK_FALSE(daemon.is_bound("10.96.0.9"));
}

TEST_CASE(
    "an address stays bound while one port's connections finish, another Service may take it") {
  FakeDaemon daemon(patient());
  auto cluster = web_with({test::e1()});
  auto& web = cluster.services.at({"default", "web"});
  daemon.see(cluster);
  daemon.ipvs.set_connections(kWeb, kE1, 1, 0);
  web.ports[0].port = 81;
  daemon.see(cluster);
  CHECK(daemon.weights(kWeb).at(kE1) == 0);
  CHECK(daemon.weights({ip("10.96.0.9"), Protocol::tcp, 81}).at(kE1) == 1);
  daemon.ipvs.set_connections(kWeb, kE1, 0, 0);
  daemon.wait(10s);
  CHECK_FALSE(daemon.ipvs.contains(kWeb));
  CHECK(daemon.is_bound("10.96.0.9"));
}

TEST_CASE("after a restart a real server that drains goes on draining") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 1, 0);
  daemon.see(web_with({test::e1()}));
  const auto before = daemon.writes();
  daemon.restart();
  CHECK(daemon.see(web_with({test::e1()})).empty());
  CHECK(daemon.writes() == before);
  daemon.ipvs.set_connections(kWeb, kE2, 0, 0);
  daemon.wait(6s);
  CHECK_FALSE(daemon.weights(kWeb).contains(kE2));
}

TEST_CASE("connections are read once for each virtual service that has something draining") {
  FakeDaemon daemon;
  std::vector<api::Endpoint> endpoints = {test::e1()};
  for (int i = 10; i < 20; ++i)
    endpoints.push_back(test::endpoint("10.244.1." + std::to_string(i), "n2"));
  daemon.see(web_with(endpoints));
  for (int i = 10; i < 20; ++i)
    daemon.ipvs.set_connections(kWeb, {ip("10.244.1." + std::to_string(i)), 8080}, 1, 0);
  daemon.see(web_with({test::e1()}));
  const auto before = daemon.ipvs.server_listings();
  daemon.wait(3s);
  CHECK(daemon.ipvs.server_listings() == before + 1);
}

TEST_CASE("it is known how long a real server drains, and how long it may at most") {
  const bool bounded = GENERATE(false, true);
  test::FakeDaemonSettings settings;
  if (bounded) settings.drain.timeout = 60s;
  FakeDaemon daemon(settings);
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 1, 0);
  const auto leaving = [&](const netlink::RealServerKey& server) {
    std::optional<Drain::Leaving> found;
    daemon.ask([&](const Inspection& inspection) {
      found = inspection.drain.leaving(kWeb, server, inspection.now);
    });
    return found;
  };
  CHECK_FALSE(leaving(kE2));
  daemon.see(web_with({test::e1()}));
  daemon.wait(20s);
  REQUIRE(leaving(kE2));
  CHECK(leaving(kE2)->since == 20s);
  CHECK(leaving(kE2)->left == (bounded ? std::optional(40'000ms) : std::nullopt));
  CHECK_FALSE(leaving(kE1));
}

constexpr int kStalls = 30;

netlink::VirtualServiceKey stall_key(int number) {
  return {ip("10.96.1." + std::to_string(number)), Protocol::tcp, 80};
}

void put_stall(model::ClusterState& cluster, int number, std::vector<api::Endpoint> endpoints) {
  auto stall = test::web_service();
  stall.name.name = "stall-" + std::to_string(number);
  stall.cluster_ips = {stall_key(number).address};
  cluster.put(stall);
  cluster.put(test::slice_of(stall, 8080, std::move(endpoints)));
}

// Thirty virtual services, from each of which a real server leaves; the first pass is due.
model::ClusterState leave_stalls(FakeDaemon& daemon) {
  model::ClusterState cluster;
  for (int number = 1; number <= kStalls; ++number)
    put_stall(cluster, number, {test::e1(), test::e2()});
  daemon.see(cluster);
  for (int number = 1; number <= kStalls; ++number) put_stall(cluster, number, {test::e1()});
  daemon.see(cluster);
  daemon.now += 10s;
  return cluster;
}

TEST_CASE("connections are read in steps; each virtual service once in a pass") {
  FakeDaemon daemon;
  leave_stalls(daemon);
  const auto runs = daemon.runs();
  const auto before = daemon.ipvs.server_listings();
  std::size_t steps = 0;
  for (auto read = before; read < before + kStalls; read = daemon.ipvs.server_listings(), ++steps) {
    const auto written = daemon.run().written.ipvs;
    CHECK(written == daemon.ipvs.server_listings() - read);
    CHECK(daemon.ipvs.server_listings() <= read + Drain::kServicesAStep);
    CHECK(daemon.reading() == (daemon.ipvs.server_listings() < before + kStalls));
  }
  CHECK(steps == (kStalls + Drain::kServicesAStep - 1) / Drain::kServicesAStep);
  CHECK(daemon.runs() == runs + steps);  // each wrote something
  CHECK(daemon.differences() == std::set<std::string>{});
}

TEST_CASE("a change between the steps of a pass is served, and the pass goes on") {
  FakeDaemon daemon;
  auto cluster = leave_stalls(daemon);
  for (int number = 1; number <= kStalls; ++number)
    daemon.ipvs.set_connections(stall_key(number), kE2, 1, 0);
  daemon.ipvs.set_connections(stall_key(30), kE2, 0, 0);
  CHECK(daemon.run().reading);
  const auto read = daemon.ipvs.server_listings();
  for (const int number : {1, 30}) put_stall(cluster, number, {test::e1(), test::e2()});
  put_stall(cluster, 31, {test::e1()});
  const auto report = daemon.see(cluster);
  CHECK(report.written.ipvs == 2 + 2);
  CHECK_FALSE(report.reading);
  while (daemon.reading()) daemon.run();
  // All but the last, which does not drain any more, and none twice.
  CHECK(daemon.ipvs.server_listings() == read + kStalls - 1 - Drain::kServicesAStep);
  for (const int number : {1, 30}) CHECK(daemon.weights(stall_key(number)).at(kE2) == 1);
  CHECK(daemon.weights(stall_key(31)).size() == 1);
  CHECK(daemon.watch.broken == std::vector<std::string>{});
}

TEST_CASE("many idle real servers of one virtual service are read once and go in parts") {
  constexpr int kMany = 200;
  FakeDaemon daemon;
  std::vector<api::Endpoint> endpoints = {test::e1()};
  for (int i = 1; i <= kMany; ++i)
    endpoints.push_back(test::endpoint("10.244.1." + std::to_string(i), "n2"));
  daemon.see(web_with(endpoints));
  daemon.see(web_with({test::e1()}));
  daemon.now += 10s;
  const auto before = daemon.ipvs.server_listings();
  CHECK(daemon.run().written.ipvs == Drain::kRemovalsAStep);
  CHECK(daemon.reading());
  // The last of them returns meanwhile, and gets its weight.
  CHECK(daemon.see(web_with({test::e1(), endpoints.back()})).written.ipvs ==
        1 + Drain::kRemovalsAStep);
  while (daemon.reading()) CHECK(daemon.run().written.ipvs <= Drain::kRemovalsAStep);
  CHECK(daemon.ipvs.server_listings() == before + 1);
  CHECK(daemon.weights(kWeb) == std::map<netlink::RealServerKey, std::uint32_t>{
                                    {kE1, 1}, {{endpoints.back().address, 8080}, 1}});
}

TEST_CASE("what drains too long while a pass is on its way goes with one of its own") {
  DrainTimes times;
  times.timeout = 30s;
  FakeDaemon daemon({.drain = times});
  leave_stalls(daemon);
  for (int number = 1; number <= kStalls; ++number)
    daemon.ipvs.set_connections(stall_key(number), kE2, 1, 0);
  daemon.now += 19'999ms;
  daemon.run();
  REQUIRE(daemon.reading());
  CHECK(daemon.weights(stall_key(1)).contains(kE2));
  daemon.wait(1ms);
  while (daemon.reading()) daemon.run();
  for (int number = 1; number <= kStalls; ++number)
    CHECK_FALSE(daemon.weights(stall_key(number)).contains(kE2));
}

}  // namespace
}  // namespace ipvsproxier::sync
