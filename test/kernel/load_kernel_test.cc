// 200 new connections a second beside 50 long ones: none fails while the daemon is restarted and
// killed and endpoints come and go, that would not fail without.

#include <poll.h>

#include <random>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;

constexpr std::size_t kPerSecond = 200;
constexpr std::size_t kPlainSeconds = 20;
constexpr std::size_t kDisturbedSeconds = 40;
constexpr int kPods = 6;
constexpr int kLong = 50;

// Pods 1 and 2 stay; of the others, those whose bit is set serve, the rest terminate.
ServiceManifest web_of(const Cluster& cluster, std::uint64_t serving) {
  ServiceManifest web{.cluster_ips = {"10.96.0.9"},
                      .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                                {.name = "stream", .port = 90, .target = kStreamPort}}};
  for (int number = 1; number <= kPods; ++number) {
    const bool serves = number <= 2 || (serving >> number & 1) != 0;
    EndpointManifest endpoint{cluster.local(number).v4, kNodeName};
    if (!serves) endpoint.conditions = "ready: false, serving: true, terminating: true";
    web.endpoints.push_back(endpoint);
  }
  return web;
}

// One disturbance, and back to a daemon that follows.
void disturb(Daemon& daemon, Manifests& manifests, const Cluster& cluster, std::mt19937& random) {
  daemon.mark();
  switch (random() % 4) {
    case 0:
      CHECK(daemon.terminate() == 0);
      manifests.put(web_of(cluster, random()));
      daemon.start();
      break;
    case 1:
      // In the middle of whatever it does with the change.
      manifests.put(web_of(cluster, random()));
      ::poll(nullptr, 0, static_cast<int>(random() % 100));
      daemon.kill();
      daemon.start();
      break;
    default:
      manifests.put(web_of(cluster, random()));
      break;
  }
  ::poll(nullptr, 0, static_cast<int>(random() % 1000));
}

TEST_CASE("kernel: load: restarts, kills and endpoint churn cost no connection", "[long]") {
  Cluster cluster({.local_pods = kPods, .remote_pods = 0});
  Manifests manifests;
  manifests.put(web_of(cluster, ~std::uint64_t{0}));
  Daemon daemon(cluster.netns(), manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs("synced: "));

  const IpAddress vip = *IpAddress::parse("10.96.0.9");
  LongConnections connections;
  for (int i = 0; i < kLong; ++i) connections.open(cluster.client(), {vip, 90});
  connections.run();
  const auto load = [&](std::size_t seconds, std::uint16_t first_port) {
    return NewConnections::Plan{.host = cluster.client(),
                                .target = {vip, 80},
                                .total = kPerSecond * seconds,
                                .per_second = kPerSecond,
                                .first_port = first_port};
  };

  const auto plain = NewConnections(load(kPlainSeconds, 20000)).wait();
  INFO("plain: " << to_string(plain));
  CHECK(plain.servers.size() == kPods);
  REQUIRE(connections.moves_on() == "");

  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  NewConnections disturbed(load(kDisturbedSeconds, 30000));
  std::size_t disturbances = 0;
  while (disturbed.made() < kPerSecond * kDisturbedSeconds) {
    disturb(daemon, manifests, cluster, random);
    ++disturbances;
  }
  const auto counts = disturbed.wait();
  INFO("disturbed " << disturbances << " times: " << to_string(counts));
  INFO(daemon.log());
  CHECK(disturbances >= 20);
  CHECK(daemon.runs());
  CHECK(counts.failed() <= plain.failed());
  CHECK(connections.moves_on() == "");
}

}  // namespace
}  // namespace ipvsproxier::test
