// From iptables to nf_tables and back, under 200 new connections a second beside long ones: nothing
// fails that would not fail without, also where a daemon is killed while it changes over.

#include <poll.h>

#include <memory>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;

constexpr std::size_t kChangePerSecond = 200;
constexpr std::size_t kUnchangedSeconds = 10;
constexpr std::size_t kChangingSeconds = 40;
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

// One daemon after the other, each with the other packet filter.
class Changer {
 public:
  Changer(const Cluster& cluster, const Manifests& manifests)
      : cluster_(cluster), manifests_(manifests) {
    start();
    REQUIRE(daemon_->logs("synced: "));
  }

  // The next one takes over, every other time at its second start.
  void change() {
    const auto* const before = filter();
    daemon_->terminate();
    logs_ += daemon_->log();
    ++count_;
    start();
    if (count_ % 2 == 0) {
      ::poll(nullptr, 0, 150 * count_);
      daemon_->kill();
      daemon_->start();
    }
    INFO(daemon_->log());
    CHECK(daemon_->logs(std::string("took over from ") + before));
    CHECK(cluster_.netns().inside(filters_in_use) == std::string(filter()) + "\n");
  }

  std::string log() const { return logs_ + daemon_->log(); }
  int count() const { return count_; }

 private:
  const char* filter() const { return count_ % 2 == 0 ? "iptables" : "nftables"; }

  void start() {
    auto flags = manifests_.flags();
    flags.push_back(std::string("--packet-filter=") + filter());
    daemon_ = std::make_unique<Daemon>(cluster_.netns(), std::move(flags));
    daemon_->start();
  }

  const Cluster& cluster_;
  const Manifests& manifests_;
  std::unique_ptr<Daemon> daemon_;
  std::string logs_;  // of those before
  int count_ = 0;
};

// Where the kernel has both packet filters.
TEST_CASE("kernel: filter change: connections live, and new ones come, there and back",
          "[filter_change]") {
  Cluster cluster({.local_pods = kChangePods, .remote_pods = 0});
  Manifests manifests;
  manifests.put(changing_web(cluster));
  Changer changer(cluster, manifests);

  const IpAddress vip = *IpAddress::parse("10.96.0.9");
  LongConnections connections;
  for (int i = 0; i < kLongThrough; ++i) connections.open(cluster.client(), {vip, 90});
  connections.run();
  const auto load = [&](std::size_t seconds, std::uint16_t first_port) {
    return NewConnections::Plan{.host = cluster.client(),
                                .target = {vip, 80},
                                .total = kChangePerSecond * seconds,
                                .per_second = kChangePerSecond,
                                .first_port = first_port};
  };
  const auto plain = NewConnections(load(kUnchangedSeconds, 20000)).wait();
  INFO("plain: " << to_string(plain));
  REQUIRE(connections.moves_on() == "");

  NewConnections changing(load(kChangingSeconds, 30000));
  while (changing.made() < kChangePerSecond * kChangingSeconds) changer.change();
  const auto counts = changing.wait();
  INFO("changed " << changer.count() << " times: " << to_string(counts));
  INFO(changer.log());
  CHECK(changer.count() >= 4);
  CHECK(counts.failed() <= plain.failed());
  CHECK(connections.moves_on() == "");
}

}  // namespace
}  // namespace ipvsproxier::test
