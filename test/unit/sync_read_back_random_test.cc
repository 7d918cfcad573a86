// Random clusters that change while the kernel is read back, part by part, with and without damage
// by others in between.

#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using test::FakeDaemon;
using test::RandomCluster;
using Lines = std::set<std::string>;

// Something that is there is removed or changed, or something is added; nobody watches.
void damage(RandomCluster& random, FakeDaemon& daemon) {
  const auto ipvs_watched = std::exchange(daemon.ipvs.after, nullptr);
  const auto sets_watched = std::exchange(daemon.sets.after, nullptr);
  const auto services = daemon.ipvs.list_services().value();
  const auto any = [&](std::size_t size) {
    return static_cast<std::size_t>(random.number(0, static_cast<int>(size) - 1));
  };
  std::vector<netlink::IpvsOp> ops;
  if (!services.empty()) {
    auto service = services[any(services.size())];
    const auto servers = daemon.ipvs.list_servers(service.key).value();
    const int kind = random.number(0, 3);
    if (kind == 0) {
      ops.emplace_back(netlink::DeleteService{service.key});
    } else if (kind == 1) {
      service.scheduler = "wlc";
      ops.emplace_back(netlink::EditService{service});
    } else if (!servers.empty()) {
      auto server = servers[any(servers.size())].server;
      server.weight = 5;
      if (kind == 2)
        ops.emplace_back(netlink::DeleteServer{service.key, server.key});
      else
        ops.emplace_back(netlink::EditServer{service.key, server});
    }
  }
  for (const auto& status : daemon.ipvs.apply(ops)) CHECK(status.has_value());
  for (const auto family : netlink::kFamilies) {
    const auto id = ipset::kSetIds.at(any(ipset::kSetIds.size()));
    const auto set = daemon.sets.list(ipset::set_name(id, family)).value();
    if (!set || set->elements.empty()) continue;
    const std::vector<ipset::ElementOp> gone = {{false, set->elements[any(set->elements.size())]}};
    CHECK(daemon.sets.apply(set->spec, gone).at(0).has_value());
  }
  for (const auto& one : daemon.links.addresses())
    if (one.link == plan::kDummyLink && random.chance(5)) daemon.links.remove_address(one);
  daemon.ipvs.after = ipvs_watched;
  daemon.sets.after = sets_watched;
}

TEST_CASE("random changes among the parts of readings back end where the plan is") {
  const bool damaged = GENERATE(false, true);
  for (std::uint32_t seed = 0; seed < test::seeds(20); ++seed) {
    INFO("seed " << seed << (damaged ? " with damage" : ""));
    RandomCluster random(seed);
    FakeDaemon daemon({.drain = {}, .options = random.options()});
    auto cluster = random.cluster(40);
    daemon.see(cluster);
    for (int step = 0; step < 150; ++step) {
      INFO("step " << step);
      if (random.chance(20)) daemon.now += 5s;
      if (damaged && random.chance(10)) damage(random, daemon);
      if (random.chance(30)) {
        if (random.chance(30))
          random.change(cluster);
        else
          random.tweak(cluster);
        if (random.chance(5)) cluster.complete = !cluster.complete;
        const auto failures = daemon.see(cluster).failures;
        if (!damaged) CHECK(failures == 0);
      } else {
        daemon.run();
      }
      if (!damaged) REQUIRE(daemon.watch.broken == std::vector<std::string>{});
    }
    if (!damaged) CHECK_FALSE(daemon.says("others changed"));
    cluster.complete = true;
    daemon.see(cluster);
    daemon.wait(80s);
    CHECK(daemon.differences() == Lines{});
    const auto writes = daemon.writes();
    daemon.wait(70s);
    CHECK(daemon.writes() == writes);
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
