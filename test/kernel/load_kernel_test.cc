// 200 new connections a second beside 50 long ones: none fails while the daemon is restarted and
// killed and endpoints come and go, that would not fail without.

#include <poll.h>

#include <csignal>

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

// What happens to the daemon and its endpoints.
class Disturber {
 public:
  Disturber(Daemon& daemon, Manifests& manifests, const Cluster& cluster, std::uint32_t seed)
      : daemon_(daemon), manifests_(manifests), cluster_(cluster), random_(seed) {}

  // One disturbance, in turns; afterwards a daemon runs.
  void disturb() {
    daemon_.mark();
    switch (count_++ % 4) {
      case 0:
        change();
        await_sync();
        break;
      case 1:
        terminate();
        change();
        daemon_.start();
        await_sync();
        break;
      case 2:
        change();
        await_sync();
        change();
        await_sync();
        break;
      default:
        // In the middle of whatever it does with the change.
        change();
        ::poll(nullptr, 0, static_cast<int>(random_() % 100));
        daemon_.kill();
        daemon_.start();
        break;
    }
  }
  std::size_t count() const { return count_; }

 private:
  void terminate() {
    const int status = daemon_.terminate();
    // The latter before it listens to signals.
    CHECK((status == 0 || status == 128 + SIGTERM));
  }
  // At least one endpoint leaves or returns.
  void change() {
    serving_ ^= 1U << (3 + random_() % (kPods - 2)) | (random_() & 0x78);
    manifests_.put(web_of(cluster_, serving_));
  }
  // That is missed if a change undid one that the kernel never saw.
  void await_sync() {
    daemon_.logs("synced: ", 10000);
    daemon_.mark();
  }

  Daemon& daemon_;
  Manifests& manifests_;
  const Cluster& cluster_;
  std::mt19937 random_;
  std::uint64_t serving_ = ~std::uint64_t{0};
  std::size_t count_ = 0;
};

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
  INFO("seed " << seed);
  Disturber disturber(daemon, manifests, cluster, seed);
  NewConnections disturbed(load(kDisturbedSeconds, 30000));
  while (disturbed.made() < kPerSecond * kDisturbedSeconds) disturber.disturb();
  const auto counts = disturbed.wait();
  INFO("disturbed " << disturber.count() << " times: " << to_string(counts));
  INFO(daemon.log());
  CHECK(disturber.count() >= 4);  // each kind at least once
  CHECK(daemon.runs());
  // Those that were away for a time served less.
  for (const auto* away : {"local-3", "local-4", "local-5", "local-6"})
    CHECK(counts.servers.at(away) < counts.servers.at("local-1"));
  CHECK(counts.failed() <= plain.failed());
  CHECK(connections.moves_on() == "");
}

}  // namespace
}  // namespace ipvsproxier::test
