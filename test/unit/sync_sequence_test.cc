// Random sequences of events, on fakes: Services, slices and the Node change in every field that
// matters, links and addresses come and go, the source is not always whole, processes end. Whatever
// came before: what is desired is never taken away in between (KernelWatch), and at a quiet point
// the kernel is what a plan from scratch says.

#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using test::FakeDaemon;
using test::ip;
using test::RandomCluster;
using Lines = std::set<std::string>;

// One of the addresses that external IPs of random Services may have, among others.
netlink::InterfaceAddress some_address(RandomCluster& random) {
  static const std::vector<netlink::InterfaceAddress> kSome = {{"eth0", ip("10.0.0.2"), 24},
                                                               {"eth0", ip("198.51.0.1"), 24},
                                                               {"eth0", ip("fd00:51::2"), 64},
                                                               {"eth0", ip("fd00:1::1"), 64}};
  return kSome.at(static_cast<std::size_t>(random.number(0, 3)));
}

void link_event(RandomCluster& random, FakeDaemon& daemon) {
  netlink::LinkEvents events;
  switch (random.number(0, 4)) {
    case 0:
      daemon.links.remove_link(plan::kDummyLink);
      events.link_lost = true;
      break;
    case 1:
      for (const auto& one : daemon.links.addresses())
        if (one.link == plan::kDummyLink && random.chance(30)) {
          daemon.links.remove_address(one);
          events.lost.insert(one.address);
        }
      break;
    case 2:
      daemon.links.add_address(some_address(random));
      events.others_changed = true;
      break;
    case 3:
      daemon.links.remove_address(some_address(random));
      events.others_changed = true;
      break;
    default:
      events.overrun = true;
      break;
  }
  daemon.see(std::move(events));
}

// Some real servers have connections, or have them no more.
void traffic(RandomCluster& random, FakeDaemon& daemon, bool none) {
  for (const auto& [key, planned] : daemon.planned().services)
    for (const auto& [server, weight] : daemon.weights(key))
      if (none || random.chance(30))
        daemon.ipvs.set_connections(key, server,
                                    none ? 0 : static_cast<std::uint32_t>(random.number(0, 2)), 0);
}

void event(RandomCluster& random, FakeDaemon& daemon, model::ClusterState& cluster) {
  traffic(random, daemon, false);
  const int kind = random.number(1, 100);
  if (kind <= 25) return link_event(random, daemon);
  if (kind <= 40)
    random.change(cluster);
  else
    random.tweak(cluster);
  if (random.chance(15)) cluster.complete = !cluster.complete;
  if (random.chance(8)) daemon.restart();
  daemon.see(cluster);
}

TEST_CASE(
    "after any events the kernel is what a plan from scratch says, and on the way there too") {
  for (std::uint32_t seed = 0; seed < test::seeds(25); ++seed) {
    INFO("seed " << seed);
    RandomCluster random(seed);
    FakeDaemon daemon({.drain = {}, .options = random.options()});
    auto cluster = random.cluster(12);
    daemon.see(cluster);
    for (int step = 1; step <= 24; ++step) {
      INFO("step " << step);
      event(random, daemon, cluster);
      daemon.wait(std::chrono::milliseconds(random.number(0, 3'000)));
      REQUIRE(daemon.watch.broken == std::vector<std::string>{});
      if (step % 8 != 0) continue;
      cluster.complete = true;
      daemon.see(cluster);
      traffic(random, daemon, true);
      daemon.wait(20s);
      REQUIRE(daemon.differences() == Lines{});
      REQUIRE(daemon.watch.broken == std::vector<std::string>{});
      const auto writes = daemon.writes();
      daemon.wait(60s);
      REQUIRE(daemon.writes() == writes);
    }
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
