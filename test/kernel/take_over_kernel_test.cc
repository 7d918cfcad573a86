// From kube-proxy's iptables mode (test/reference/iptables_mode, restored with iptables-restore) to
// ours, under traffic of both families.

#include <chrono>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "test/kernel/kernel_state.h"
#include "test/kernel/kube_proxy_modes.h"
#include "test/kernel/load.h"
#include "test/kernel/traffic.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;

void restore(const Netns& netns, const std::string& options, const std::string& ipv4,
             const std::string& ipv6) {
  netns.inside([&] {
    shell("set -e; cd " + data_word("reference/iptables_mode") + "; iptables-restore " + options +
          " " + ipv4 + "; ip6tables-restore " + options + " " + ipv6);
  });
}

// Lines of all tables that name something of iptables mode alone, as these programs save them.
std::string iptables_mode_lines(const Netns& netns,
                                const std::string& save = "iptables-save; ip6tables-save") {
  return netns.inside([&save] {
    return shell("{ " + save +
                 "; } | grep -E 'KUBE-(SVC|SVL|SEP|FW|EXT)-|KUBE-NODEPORTS|"
                 "KUBE-EXTERNAL-SERVICES|KUBE-PROXY-CANARY|KUBE-SERVICES-|load balancer firewall|"
                 "ctstate NEW .* -j KUBE-SERVICES' || true");
  });
}

// How many connections the real servers of web's stream port have through IPVS.
std::uint32_t ipvs_connections(const Cluster& cluster) {
  IpvsView view(cluster.netns());
  std::uint32_t count = 0;
  for (const Pod* pod : {&cluster.local(), &cluster.remote()}) {
    const auto server =
        view.server({ip("10.96.0.9"), netlink::Protocol::tcp, 90}, {pod->v4, kStreamPort});
    if (server) count += server->active_connections;
  }
  return count;
}

TEST_CASE("kernel: take-over: kube-proxy's iptables mode serves until ours does",
          "[handover][item-13]") {
  const TrafficBed bed;
  const auto& cluster = bed.cluster;
  const auto& netns = cluster.netns();
  Manifests manifests;
  put_mode_services(manifests, cluster);
  restore(netns, "-c", "kubelet.rules", "kubelet.rules");
  const auto before = everything(netns);
  restore(netns, "-n", "ipv4.rules", "ipv6.rules");
  REQUIRE(iptables_mode_lines(netns) != "");
  check_mode_load_balancer(cluster);

  LongConnections old_ones;
  open_mode_connections(cluster, old_ones);
  old_ones.run();
  REQUIRE(old_ones.moves_on() == "");
  REQUIRE(ipvs_connections(cluster) == 0);

  Daemon daemon(netns, manifests.flags());
  NewConnections new_ones({.host = cluster.client(),
                           .target = {ip("10.96.0.9"), 80},
                           .total = 20000,
                           .per_second = 100});
  daemon.start();
  const bool synced = daemon.logs("synced: ");
  INFO(daemon.log());
  REQUIRE(synced);
  CHECK(
      daemon.logs("rules of kube-proxy's iptables mode go on in chain KUBE-SERVICES-IPTABLES", 0));
  // Once all of ours is there.
  CHECK(daemon.logs("took over from kube-proxy's iptables mode: removed"));
  CHECK(iptables_mode_lines(netns) == "");
  CHECK(old_ones.moves_on() == "");
  const auto until_then = new_ones.made();
  CHECK(eventually([&] { return new_ones.made() > until_then + 50; }));
  new_ones.stop();
  const auto counts = new_ones.wait();
  INFO(to_string(counts));
  CHECK(counts.failed() == 0);
  CHECK(counts.servers.size() == 2);

  CHECK(ipvs_connections(cluster) == 0);
  LongConnections through_ipvs;
  open_mode_connections(cluster, through_ipvs);
  through_ipvs.run();
  CHECK(through_ipvs.moves_on() == "");
  CHECK(ipvs_connections(cluster) == 3);
  check_mode_load_balancer(cluster);

  CHECK(daemon.terminate() == 0);
  Daemon cleanup(netns, {"--cleanup"});
  cleanup.start();
  CHECK(cleanup.wait_for_end() == 0);
  CHECK(difference(before, everything(netns)) == "");
  // They never were ours.
  CHECK(old_ones.moves_on() == "");
}

TEST_CASE("kernel: take-over: a family whose addresses cannot be bound keeps what serves it",
          "[handover]") {
  const TrafficBed bed;
  const auto& cluster = bed.cluster;
  const auto& netns = cluster.netns();
  Manifests manifests;
  put_mode_services(manifests, cluster);
  restore(netns, "-c", "kubelet.rules", "kubelet.rules");
  restore(netns, "-n", "ipv4.rules", "ipv6.rules");
  // Too small for IPv6.
  netns.inside([] { shell("ip link add kube-ipvs0 mtu 1000 type dummy"); });
  manifests.configure(std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges +
                      "\"\nipvs: {syncPeriod: 2s}\n");

  Daemon daemon(netns, manifests.flags());
  daemon.start();
  const bool taken = daemon.logs("took over from kube-proxy's iptables mode: removed");
  INFO(daemon.log());
  REQUIRE(taken);
  CHECK(iptables_mode_lines(netns, "iptables-save") == "");
  // Longer than a sync period, after which it used to give up waiting.
  CHECK(daemon.logs("add address fd00:96::9/128"));
  std::this_thread::sleep_for(std::chrono::seconds(5));
  CHECK(iptables_mode_lines(netns, "ip6tables-save") != "");
  for (const auto* vip : {"10.96.0.9", "fd00:96::9", "2001:db8:2::10"}) {
    INFO(vip);
    CHECK_THAT(answer(cluster.client(), netlink::Protocol::tcp, vip, 80),
               Catch::Contains("-1 sees "));
  }
  CHECK(daemon.terminate() == 0);
}

}  // namespace
}  // namespace ipvsproxier::test
