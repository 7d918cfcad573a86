// Trash: how many real servers are removed in some minutes, and who waits.

#include "proxier/sync/trash.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Protocol;
using test::FakeDaemon;
using test::ip;
using DumpLines = std::set<std::string>;

struct WideService {
  api::NamespacedName name{"tenant", "wide"};
  std::string address = "10.97.0.1";
  std::uint16_t port = 80;
  Protocol protocol = Protocol::tcp;
  std::uint32_t first = 0x0af50001U;  // address of the first endpoint
  std::uint32_t endpoints = 0;
};

// These tests last for hours: most of their time would be that of reading tens of thousands of real
// servers back.
test::FakeDaemonSettings seldom_read_back() {
  test::FakeDaemonSettings settings;
  settings.sync_period = 20min;
  return settings;
}

void put_service(model::ClusterState& cluster, const WideService& wide) {
  auto service = test::web_service();
  service.name = wide.name;
  service.cluster_ips = {ip(wide.address)};
  service.ports = {{.name = "p", .protocol = wide.protocol, .port = wide.port, .node_port = 0}};
  std::vector<api::Endpoint> all;
  for (std::uint32_t i = 0; i < wide.endpoints; ++i) {
    auto endpoint = test::e2();
    endpoint.address = netlink::IpAddress::v4(wide.first + i);
    all.push_back(endpoint);
  }
  auto slice = test::slice_of(service, 8080, all);
  slice.ports = {{.name = "p", .protocol = wide.protocol, .port = 8080}};
  cluster.put(service);
  cluster.put(slice);
}

netlink::VirtualServiceKey key_of_wide(const WideService& wide) {
  return {ip(wide.address), wide.protocol, wide.port};
}

std::size_t servers_of_wide(FakeDaemon& daemon, const WideService& wide) {
  return daemon.weights(key_of_wide(wide)).size();
}

std::size_t weighted_of_wide(FakeDaemon& daemon, const WideService& wide) {
  const auto weights = daemon.weights(key_of_wide(wide));
  return static_cast<std::size_t>(
      std::ranges::count_if(weights, [](const auto& one) { return one.second > 0; }));
}

TEST_CASE("trash: a port that ends with many real servers waits with weight 0, others go") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  WideService wide{.endpoints = 3 * Trash::kMost};
  const WideService small{.name = {"tenant", "small"}, .address = "10.97.0.2", .endpoints = 10};
  const WideService other{.name = {"other", "small"}, .address = "10.97.0.3", .endpoints = 10};
  for (const auto& one : {wide, small, other}) put_service(cluster, one);
  daemon.see(cluster);
  const auto old = wide;
  wide.port = 81;
  put_service(cluster, wide);
  daemon.see(cluster);
  CHECK(servers_of_wide(daemon, wide) == wide.endpoints);
  const auto removed = old.endpoints - servers_of_wide(daemon, old);
  CHECK(removed > Trash::kMost / 8);
  CHECK(removed <= Trash::kMost / 2);
  CHECK(weighted_of_wide(daemon, old) == 0);

  // The same Service waits; a small one does not, in its namespace and elsewhere.
  for (auto one : {small, other}) {
    one.port = 81;
    put_service(cluster, one);
  }
  daemon.see(cluster);
  CHECK(servers_of_wide(daemon, small) == 0);
  CHECK(servers_of_wide(daemon, other) == 0);
  CHECK(old.endpoints - servers_of_wide(daemon, old) == removed);

  // After a while all are gone, with never more than the limit in so many minutes.
  auto left = servers_of_wide(daemon, old);
  for (int i = 0; i < 100 && left > 0; ++i) {
    daemon.wait(Trash::kStay);
    const auto now = servers_of_wide(daemon, old);
    CHECK(left - now <= Trash::kMost);
    left = now;
  }
  CHECK(daemon.differences() == DumpLines{});
  CHECK(daemon.watch.broken == std::vector<std::string>{});
}

TEST_CASE("trash: endpoints of TCP that are replaced drain no faster than the limit") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  WideService wide{.endpoints = Trash::kMost};
  put_service(cluster, wide);
  daemon.see(cluster);
  wide.first += wide.endpoints;
  put_service(cluster, wide);
  daemon.see(cluster);
  CHECK(servers_of_wide(daemon, wide) == 2 * wide.endpoints);
  daemon.wait(Trash::kStay - 10s);
  const auto left = servers_of_wide(daemon, wide) - wide.endpoints;
  CHECK(left >= wide.endpoints / 2);
  CHECK(left < wide.endpoints);
  daemon.wait(20 * Trash::kStay);
  CHECK(daemon.differences() == DumpLines{});
}

TEST_CASE("trash: real servers of UDP go at once up to a larger share, and before those of TCP") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  WideService tcp{.endpoints = Trash::kMost};
  WideService udp{.name = {"tenant", "wide-udp"},
                  .address = "10.97.0.2",
                  .protocol = Protocol::udp,
                  .endpoints = 300};
  put_service(cluster, tcp);
  put_service(cluster, udp);
  daemon.see(cluster);
  tcp.port = 81;
  put_service(cluster, tcp);
  daemon.see(cluster);
  CHECK(daemon.weights({ip("10.97.0.1"), Protocol::tcp, 80}).size() > Trash::kMost / 2);
  // TCP has used the share of its namespace; UDP has room left.
  udp.first += udp.endpoints;
  put_service(cluster, udp);
  daemon.see(cluster);
  CHECK(servers_of_wide(daemon, udp) == udp.endpoints);
  // Beyond its share UDP waits with weight 0, too.
  WideService more = udp;
  more.endpoints = Trash::kMost;
  put_service(cluster, more);
  daemon.see(cluster);
  more.first += 2 * more.endpoints;
  put_service(cluster, more);
  daemon.see(cluster);
  CHECK(weighted_of_wide(daemon, more) == more.endpoints);
  CHECK(servers_of_wide(daemon, more) > more.endpoints);
}

TEST_CASE("trash: many Services of one namespace that remove few leave room for others") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  std::vector<WideService> few;
  for (int i = 0; i < 300; ++i)
    few.push_back(
        {.name = {"tenant", "few-" + std::to_string(i)},
         .address = "10.97." + std::to_string(1 + i / 200) + "." + std::to_string(i % 200),
         .protocol = Protocol::udp,
         .endpoints = Trash::kFew});
  WideService other{
      .name = {"other", "dns"}, .address = "10.97.9.9", .protocol = Protocol::udp, .endpoints = 10};
  for (const auto& one : few) put_service(cluster, one);
  put_service(cluster, other);
  daemon.see(cluster);
  for (auto& one : few) {
    one.endpoints = 0;
    put_service(cluster, one);
  }
  daemon.see(cluster);
  std::size_t left = 0;
  for (const auto& one : few) left += servers_of_wide(daemon, one);
  CHECK(left >= Trash::kMost / 8);
  CHECK(left <= 300 * Trash::kFew / 2);

  other.first += other.endpoints;
  put_service(cluster, other);
  daemon.see(cluster);
  CHECK(servers_of_wide(daemon, other) == other.endpoints);
  daemon.wait(3 * Trash::kStay);
  CHECK(daemon.differences() == DumpLines{});
}

// Its first turns add real servers, and end before they remove any.
TEST_CASE("trash: what a turn did not come to is not counted") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  WideService wide{.protocol = Protocol::udp, .endpoints = 3 * Trash::kMost};
  put_service(cluster, wide);
  daemon.see(cluster);
  const auto old = wide;
  wide.port = 81;
  put_service(cluster, wide);
  daemon.input_waits = true;
  daemon.hear(cluster);
  daemon.run_turns();
  CHECK(servers_of_wide(daemon, wide) == wide.endpoints);
  const auto removed = old.endpoints - servers_of_wide(daemon, old);
  CHECK(removed >= Trash::kMost / 4);
  CHECK(removed <= Trash::kMost / 2);
}

TEST_CASE("trash: another process knows what waits, and removes it") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  WideService wide{.endpoints = 2 * Trash::kMost};
  put_service(cluster, wide);
  daemon.see(cluster);
  const auto old = wide;
  const bool deleted = GENERATE(false, true);
  if (deleted) {
    cluster.services.clear();
    cluster.slices.clear();
  } else {
    wide.port = 81;
    put_service(cluster, wide);
  }
  daemon.see(cluster);
  CHECK(daemon.is_bound(wide.address) == !deleted);
  REQUIRE(servers_of_wide(daemon, old) > 0);
  daemon.restart();
  daemon.see(cluster);
  daemon.wait(40 * Trash::kStay);
  CHECK(servers_of_wide(daemon, old) == 0);
  CHECK(daemon.differences() == DumpLines{});
}

TEST_CASE("trash: what waits is planned again, and stays") {
  FakeDaemon daemon(seldom_read_back());
  model::ClusterState cluster;
  WideService wide{.endpoints = 2 * Trash::kMost};
  put_service(cluster, wide);
  daemon.see(cluster);
  auto moved = wide;
  moved.port = 81;
  put_service(cluster, moved);
  daemon.see(cluster);
  REQUIRE(weighted_of_wide(daemon, wide) == 0);
  put_service(cluster, wide);
  daemon.see(cluster);
  CHECK(weighted_of_wide(daemon, wide) == wide.endpoints);
  daemon.wait(40 * Trash::kStay);
  CHECK(daemon.differences() == DumpLines{});
}

TEST_CASE("trash: a namespace gets no further real servers while too many wait") {
  auto settings = seldom_read_back();
  settings.most_waiting_removals = 10'000;
  FakeDaemon daemon(settings);
  auto cluster = test::web_with({test::e1()});
  WideService wide{.endpoints = 8'000};
  put_service(cluster, wide);
  daemon.see(cluster);
  for (int i = 0; i < 4; ++i) {
    ++wide.port;
    put_service(cluster, wide);
    daemon.see(cluster);
  }
  std::size_t servers = 0;
  for (const auto& service : daemon.ipvs.services())
    servers += daemon.ipvs.servers(service.key).size();
  CHECK(servers < settings.most_waiting_removals + 3 * wide.endpoints);
  CHECK(daemon.says("too many real servers of its namespace"));
  // Others are not concerned, and the node is well.
  cluster.slices[test::web_service().name] =
      test::web_with({test::e1(), test::e2()}).slices.at(test::web_service().name);
  const auto report = daemon.see(cluster);
  CHECK(daemon.weights(test::kWeb).size() == 2);
  CHECK(report.failures == 0);
  CHECK(report.well == std::set{netlink::Family::ipv4});
}

}  // namespace
}  // namespace ipvsproxier::sync
