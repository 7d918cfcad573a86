// From each mode of kube-proxy, through either iptables, to our daemon with each packet filter, and
// back to what kube-proxy in ipvs mode would leave, and from an earlier build: under 200
// new connections a second beside long ones. None fails, also where the daemon is killed in the
// middle, again and again.

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/kernel_state.h"
#include "test/kernel/kube_proxy_modes.h"
#include "test/kernel/load.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

// What each place holds of kube-proxy and of us: "legacy", "nft" and "sets" of the rules and sets
// of iptables, "translation" where a mode translates destinations, and names of tables of
// nf_tables.
std::string left_in(const Netns& netns) {
  return netns.inside([] {
    return shell(
        "ours='KUBE-(SERVICES|SVC|SEP|FORWARD|IPVS-FILTER|MARK-MASQ|NODE-PORT|POSTROUTING)'; "
        "{ iptables-legacy-save; ip6tables-legacy-save; } | grep -qE $ours && echo legacy; "
        "{ iptables-nft-save; ip6tables-nft-save; } 2>/dev/null | grep -qE $ours && echo nft; "
        "ipset list -n | grep -q KUBE- && echo sets; "
        "{ iptables-legacy-save; ip6tables-legacy-save; iptables-nft-save; ip6tables-nft-save; } "
        "2>/dev/null | grep -qE 'KUBE-(SVC|SEP)' && echo translation; "
        "nft list tables | grep -oE 'ip6? kube-[a-z]+'; "
        "{ iptables-legacy-save; ip6tables-legacy-save; ipset list -n; ip -o addr; } | "
        "grep -qE 'KUBE-(6-)?(IN-CLUSTER|LOCALHOST)|kube-local|169.254.107' && echo earlier; true");
  });
}

const std::string kInIptables = "legacy\nsets\n";
const std::string kInNftables = "ip kube-ipvs\nip6 kube-ipvs\n";

// One host to IPv4 and the node to IPv6, so that both hooks at which packets begin are passed.
class BothFamilies {
 public:
  explicit BothFamilies(const Host& host, const Cluster& cluster,
                        const std::string& v4 = "10.96.0.9", const std::string& v6 = "fd00:96::9")
      : four_({.host = host, .target = {ip(v4), 80}, .total = kMost, .per_second = 100}),
        six_({.host = cluster.node(), .target = {ip(v6), 80}, .total = kMost, .per_second = 100}) {}

  void check_none_failed(std::size_t servers = 2, std::size_t least = 200) {
    for (auto* load : {&four_, &six_}) {
      load->stop();
      const auto counts = load->wait();
      INFO(to_string(counts));
      CHECK(counts.failed() == 0);
      CHECK(counts.made > least);
      CHECK(counts.servers.size() == servers);
    }
  }

 private:
  static constexpr std::size_t kMost = 30000;
  NewConnections four_;
  NewConnections six_;
};

// A first start loads modules, under traffic, in a kernel that is interpreted.
constexpr int kPatienceWithStart = 60'000;

class Change {
 public:
  Change(const Cluster& cluster, const Manifests& manifests)
      : cluster_(cluster), manifests_(manifests) {}

  // Killed as soon as the log says each of `points`, and let through in the end.
  void to(const std::string& flag, const std::vector<std::string>& points,
          const std::string& left) {
    auto flags = manifests_.flags();
    flags.push_back(flag);
    flags.emplace_back("-v=4");
    daemon_ = std::make_unique<Daemon>(cluster_.netns(), std::move(flags));
    for (const auto& point : points) {
      // In a slow guest the kill may come behind the next point as well, which is not told again.
      if (daemon_->log().find(point) != std::string::npos) continue;
      daemon_->mark();
      daemon_->start();
      const bool said = daemon_->logs(point, kPatienceWithStart);
      INFO(point << "\n" << daemon_->log());
      CHECK(said);
      daemon_->kill();
    }
    daemon_->mark();
    daemon_->start();
    const bool synced = daemon_->logs("synced: ", kPatienceWithStart);
    {
      INFO(daemon_->log());
      CHECK(synced);
    }
    CHECK(eventually([&] { return left_in(cluster_.netns()) == left; }));
    INFO(daemon_->log());
    CHECK(left_in(cluster_.netns()) == left);
  }
  void end() { CHECK(daemon_->terminate() == 0); }
  std::string log() const { return daemon_->log(); }

 private:
  const Cluster& cluster_;
  const Manifests& manifests_;
  std::unique_ptr<Daemon> daemon_;
};

void check_port_answers(const Cluster& cluster) {
  for (const auto* vip : {"10.96.0.9", "fd00:96::9"}) {
    INFO(vip);
    CHECK(eventually([&] {
      return answer(cluster.client(), Protocol::tcp, vip, 81).find("-1 sees ") != std::string::npos;
    }));
  }
}

void check_new_port(const Cluster& cluster, Manifests& manifests) {
  put_mode_services(manifests, cluster, true);
  check_port_answers(cluster);
}

// A kube-proxy of iptables-nft writes its rules beside those of the legacy tables, which go by the
// commands of docs/operations.md.
void go_on_in_iptables_nft(const Cluster& cluster) {
  copy_to_iptables_nft(cluster.netns());
  CHECK(left_in(cluster.netns()) == "legacy\nnft\nsets\n");
  check_mode_load_balancer(cluster);
  check_port_answers(cluster);
  cluster.netns().inside([] {
    shell(
        "for f in iptables ip6tables; do for t in nat filter; do"
        " $f-legacy-save -t $t | grep -v KUBE- | $f-legacy-restore -T $t; done; done");
  });
  CHECK(left_in(cluster.netns()) == "nft\nsets\n");
}

enum class Mode : std::uint8_t { iptables, iptables_nft, nftables, ipvs, ipvs_nft };

void restore(Mode mode, const Netns& netns, const Manifests& manifests) {
  switch (mode) {
    case Mode::iptables:
      return restore_iptables_mode(netns, Iptables::legacy);
    case Mode::iptables_nft:
      return restore_iptables_mode(netns, Iptables::nft);
    case Mode::nftables:
      return restore_nftables_mode(netns);
    case Mode::ipvs:
      return restore_ipvs_mode(netns, manifests, Iptables::legacy);
    case Mode::ipvs_nft:
      return restore_ipvs_mode(netns, manifests, Iptables::nft);
  }
}

void check_change(Mode mode, bool nftables) {
  INFO("mode " << static_cast<int>(mode));
  const TrafficBed bed;
  const auto& cluster = bed.cluster;
  Manifests manifests;
  put_mode_services(manifests, cluster);
  restore(mode, cluster.netns(), manifests);
  check_mode_load_balancer(cluster);

  LongConnections connections;
  open_mode_connections(cluster, connections);
  connections.run();
  BothFamilies load(cluster.client(), cluster);
  Change change(cluster, manifests);
  std::vector<std::string> points{"transaction: ", "synced: "};
  if (nftables || mode != Mode::ipvs) points.emplace_back("took over from ");
  // With the default flags a daemon takes nf_tables.
  change.to(nftables ? "--packet-filter=auto" : "--packet-filter=iptables", points,
            nftables ? kInNftables : kInIptables);
  check_mode_load_balancer(cluster);
  check_new_port(cluster, manifests);
  change.end();
  // What kube-proxy in ipvs mode goes on with.
  change.to("--kube-proxy-compat", {"synced: "}, kInIptables);
  change.end();
  if (mode == Mode::ipvs_nft) go_on_in_iptables_nft(cluster);
  load.check_none_failed();
  CHECK(connections.moves_on() == "");
  check_mode_load_balancer(cluster);
  check_port_answers(cluster);
}

// Clients within the cluster reach a Service of policy Local that has no endpoint here, before,
// meanwhile and afterwards.
void check_conversion(const std::string& flag, const std::string& left) {
  const TrafficBed bed;
  const auto& cluster = bed.cluster;
  Manifests manifests;
  put_mode_services(manifests, cluster);
  put_local_service(manifests, cluster);
  restore_earlier_build(cluster.netns());
  REQUIRE(left_in(cluster.netns()) == kInIptables + "earlier\n");

  LongConnections connections;
  open_mode_connections(cluster, connections);
  for (const auto* vip : {"192.0.2.30", "2001:db8:2::20"})
    for (const auto* host : {static_cast<const Host*>(&cluster.local(2)), &cluster.node()})
      connections.open(*host, {ip(vip), 90});
  connections.run();
  BothFamilies load(cluster.local(2), cluster, "192.0.2.30", "2001:db8:2::30");
  Change change(cluster, manifests);
  change.to(flag, {"transaction: ", "synced: "}, left);
  change.end();
  INFO(change.log());
  load.check_none_failed(1, 100);
  CHECK(connections.moves_on() == "");
  check_mode_load_balancer(cluster);
}

TEST_CASE("kernel: mode change: from an earlier build to nf_tables",
          "[mode_change][from_earlier]") {
  // Rules for clients within the cluster do not keep a node with legacy iptables.
  check_conversion("--packet-filter=auto", kInNftables);
}

TEST_CASE("kernel: mode change: from an earlier build to iptables", "[mode_change][from_earlier]") {
  check_conversion("--packet-filter=iptables", kInIptables);
}

// Where the kernel has both packet filters.
TEST_CASE("kernel: mode change: from rules of kube-proxy to iptables, and back",
          "[mode_change][to_iptables][from_rules]") {
  check_change(GENERATE(Mode::iptables, Mode::iptables_nft, Mode::nftables), false);
}

TEST_CASE("kernel: mode change: from rules of kube-proxy to nf_tables, and back",
          "[mode_change][to_nftables][from_rules]") {
  check_change(GENERATE(Mode::iptables, Mode::iptables_nft, Mode::nftables), true);
}

TEST_CASE("kernel: mode change: from ipvs mode of kube-proxy to iptables, and back",
          "[mode_change][to_iptables][from_ipvs]") {
  check_change(GENERATE(Mode::ipvs, Mode::ipvs_nft), false);
}

TEST_CASE("kernel: mode change: from ipvs mode of kube-proxy to nf_tables, and back",
          "[mode_change][to_nftables][from_ipvs]") {
  check_change(GENERATE(Mode::ipvs, Mode::ipvs_nft), true);
}

}  // namespace
}  // namespace ipvsproxier::test
