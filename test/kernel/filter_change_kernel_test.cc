// From iptables to nf_tables and back, under 200 new connections a second beside long ones: none
// fails, also where a daemon is killed while it changes over, as none does where daemons with one
// packet filter follow each other.

#include <poll.h>

#include <memory>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;

constexpr std::size_t kChangePerSecond = 200;
constexpr std::uint16_t kMostChangingLoad = 25000;
constexpr int kSuccessors = 8;
constexpr int kChangePods = 3;
constexpr int kLongThrough = 20;

ServiceManifest changing_web(const Cluster& cluster) {
  ServiceManifest web{.cluster_ips = {"10.96.0.9"},
                      .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                                {.name = "stream", .port = 90, .target = kStreamPort}}};
  for (int number = 1; number <= kChangePods; ++number)
    web.endpoints.push_back({cluster.local(number).v4, kNodeName});
  return web;
}

// Which packet filters hold anything of ours in the calling thread's namespace.
std::string filters_in_use() {
  return shell(
      "{ iptables-legacy-save; ipset list -n; } 2>/dev/null | grep -q KUBE-SERVICES && echo "
      "iptables; "
      "nft list tables | grep -q kube-ipvs && echo nftables; true");
}

// One daemon after the other.
class Successors {
 public:
  Successors(const Cluster& cluster, const Manifests& manifests)
      : cluster_(cluster), manifests_(manifests) {
    start();
    REQUIRE(daemon_->logs("synced: "));
  }

  // With the same packet filter. Every other time the next one is killed, and started again.
  void follow() { succeed("synced: "); }
  // With the other one.
  void change() {
    const auto* const before = filter();
    ++changes_;
    succeed(std::string("took over from ") + before);
    const auto only = std::string(filter()) + "\n";
    CHECK(eventually([&] { return cluster_.netns().inside(filters_in_use) == only; }));
  }

  std::string log() const { return logs_ + daemon_->log(); }

 private:
  const char* filter() const { return changes_ % 2 == 0 ? "iptables" : "nftables"; }

  void start() {
    auto flags = manifests_.flags();
    flags.push_back(std::string("--packet-filter=") + filter());
    flags.emplace_back("-v=4");  // a sync that changes nothing is told, too
    daemon_ = std::make_unique<Daemon>(cluster_.netns(), std::move(flags));
    daemon_->start();
  }
  void succeed(const std::string& told) {
    daemon_->terminate();
    logs_ += daemon_->log();
    start();
    // Pairs, so that a change in each direction is killed.
    if (count_++ % 4 >= 2) {
      ::poll(nullptr, 0, 150 * (count_ % 7));
      daemon_->kill();
      daemon_->start();
    }
    INFO(daemon_->log());
    CHECK(daemon_->logs(told));
  }

  const Cluster& cluster_;
  const Manifests& manifests_;
  std::unique_ptr<Daemon> daemon_;
  std::string logs_;  // of those before
  int changes_ = 0;
  int count_ = 0;
};

// Where the kernel has both packet filters.
TEST_CASE("kernel: filter change: connections live, and new ones come, there and back",
          "[filter_change]") {
  Cluster cluster({.local_pods = kChangePods, .remote_pods = 0});
  Manifests manifests;
  manifests.put(changing_web(cluster));
  Successors daemons(cluster, manifests);
  // The kernel loads what both need.
  daemons.change();
  daemons.change();

  const IpAddress vip = *IpAddress::parse("10.96.0.9");
  LongConnections connections;
  for (int i = 0; i < kLongThrough; ++i) connections.open(cluster.client(), {vip, 90});
  connections.run();
  const auto load = [&](std::uint16_t first_port) {
    return NewConnections::Plan{.host = cluster.client(),
                                .target = {vip, 80},
                                .total = kMostChangingLoad,
                                .per_second = kChangePerSecond,
                                .first_port = first_port};
  };
  NewConnections following(load(10000));
  for (int i = 0; i < kSuccessors; ++i) daemons.follow();
  following.stop();
  const auto plain = following.wait();
  INFO("one filter, " << kSuccessors << " successors: " << to_string(plain));
  REQUIRE(connections.moves_on() == "");

  NewConnections changing(load(10000 + kMostChangingLoad));
  for (int i = 0; i < kSuccessors; ++i) daemons.change();
  changing.stop();
  const auto counts = changing.wait();
  INFO("changed " << kSuccessors << " times: " << to_string(counts));
  INFO(daemons.log());
  CHECK(plain.failed() == 0);
  CHECK(counts.failed() == 0);
  CHECK(counts.made > kChangePerSecond * kSuccessors);
  CHECK(connections.moves_on() == "");
}

}  // namespace
}  // namespace ipvsproxier::test
