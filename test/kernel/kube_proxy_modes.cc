#include "test/kernel/kube_proxy_modes.h"

#include <catch2/catch.hpp>

#include "test/kernel/daemon.h"
#include "test/kernel/traffic.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {

void put_mode_services(Manifests& manifests, const Cluster& cluster, bool more_ports) {
  const auto endpoints = endpoints_of({&cluster.local(), &cluster.remote()});
  const PortManifest echo{.name = "echo", .port = 80, .target = kEchoPort};
  ServiceManifest web{.name = "web", .type = "NodePort"};
  web.cluster_ips = {"10.96.0.9", "fd00:96::9"};
  web.ports = {echo, {.name = "stream", .port = 90, .target = kStreamPort, .node_port = 30090}};
  web.endpoints = endpoints;
  if (more_ports) web.ports.push_back({.name = "more", .port = 81, .target = kEchoPort});
  manifests.put(web);
  ServiceManifest lb{.name = "lb", .type = "LoadBalancer"};
  lb.cluster_ips = {"10.96.0.16", "fd00:96::10"};
  lb.ports = {echo};
  lb.endpoints = endpoints;
  lb.spec = "loadBalancerSourceRanges: [203.0.113.0/24, '2001:db8:7::/64']";
  lb.ingress_ips = {"192.0.2.10", "2001:db8:2::10"};
  manifests.put(lb);
  manifests.put({.name = "empty", .cluster_ips = {"10.96.0.19", "fd00:96::13"}});
}

void restore_iptables_mode(const Netns& netns, Iptables iptables) {
  const std::string kind = iptables == Iptables::legacy ? "legacy" : "nft";
  netns.inside([&] {
    shell("set -e; cd " + data_word("reference/iptables_mode") + "; iptables-" + kind +
          "-restore -n ipv4.rules; ip6tables-" + kind + "-restore -n ipv6.rules");
  });
}

void restore_nftables_mode(const Netns& netns) {
  netns.inside([] {
    shell("set -e; cd " + data_word("reference/nftables_mode") +
          "; nft -f ipv4.nft; nft -f ipv6.nft");
  });
}

void restore_earlier_build(const Netns& netns) {
  netns.inside([] {
    shell("set -e; cd " + data_word("reference/earlier_build") +
          "; modprobe -a ip_vs_rr 2>/dev/null || true; ip link add kube-ipvs0 type dummy"
          "; ip link add kube-local0 type veth peer name kube-local1; ip -batch addresses"
          "; ipset restore <sets; ipvsadm-restore <services; sysctl -qw net.ipv4.vs.conntrack=1"
          "; iptables-legacy-restore ipv4.rules; ip6tables-legacy-restore ipv6.rules");
  });
}

void put_local_service(Manifests& manifests, const Cluster& cluster) {
  ServiceManifest local{.name = "local", .type = "LoadBalancer"};
  local.cluster_ips = {"10.96.0.20", "fd00:96::14"};
  local.ports = {{.name = "echo", .port = 80, .target = kEchoPort, .node_port = 30080},
                 {.name = "stream", .port = 90, .target = kStreamPort, .node_port = 30091}};
  local.endpoints = endpoints_of({&cluster.remote()});
  local.spec = "externalTrafficPolicy: Local, externalIPs: [192.0.2.20, '2001:db8:2::20']";
  local.ingress_ips = {"192.0.2.30", "2001:db8:2::30"};
  manifests.put(local);
}

void copy_to_iptables_nft(const Netns& netns) {
  netns.inside([] {
    shell("set -e; for f in iptables ip6tables; do $f-legacy-save | $f-nft-restore; done");
  });
}

void restore_ipvs_mode(const Netns& netns, const Manifests& manifests, Iptables iptables) {
  const auto run = run_once(netns, manifests, {"--kube-proxy-compat", "--packet-filter=iptables"});
  INFO(run.log);
  REQUIRE(run.status == 0);
  if (iptables == Iptables::legacy) return;
  copy_to_iptables_nft(netns);
  netns.inside([] {
    shell(
        "set -e; for f in iptables ip6tables; do"
        " for t in filter nat; do $f-legacy -t $t -F; $f-legacy -t $t -X; done; done");
  });
}

void open_mode_connections(const Cluster& cluster, LongConnections& connections) {
  for (const auto* vip : {"10.96.0.9", "fd00:96::9"})
    for (const Host* host : three_sides(cluster)) connections.open(*host, {ip(vip), 90});
  connections.open(cluster.client(), {cluster.node().v4, 30090});
  connections.open(cluster.client(), {cluster.node().v6, 30090});
}

void check_mode_load_balancer(const Cluster& cluster) {
  for (const auto* vip : {"192.0.2.10", "2001:db8:2::10"}) {
    CHECK_THAT(answer(cluster.client(), netlink::Protocol::tcp, vip, 80),
               Catch::Contains("-1 sees "));
    CHECK(answer(cluster.stranger(), netlink::Protocol::tcp, vip, 80, kShortWait) == "no answer");
  }
}

}  // namespace ipvsproxier::test
