// What kube-router's service proxy leaves on a node is taken over as kube-proxy's state is.

#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/beside.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

// 10.244.0.99 ended long ago. 192.0.2.71 is another program's, on a link of its own.
constexpr const char* kLeft = R"(set -e
ip link add kube-dummy-if type dummy
ip link set kube-dummy-if up
for vip in 10.96.7.1 10.96.7.2 192.0.2.70; do ip addr add $vip/32 dev kube-dummy-if; done
for tcp in 10.96.7.1:80 192.0.2.70:80 10.200.0.2:31070; do
  ipvsadm -A -t $tcp -s lc
  ipvsadm -a -t $tcp -r 10.244.0.99:8080 -m
done
ipvsadm -A -u 10.96.7.2:53 -s rr
ipvsadm -a -u 10.96.7.2:53 -r 10.244.0.99:8080 -m
ip link add other0 type dummy
ip addr add 192.0.2.71/32 dev other0
ipvsadm -A -t 192.0.2.71:80 -s lc
ipvsadm -a -t 192.0.2.71:80 -r 10.244.0.99:8080 -m
ipset create kube-router-local-ips hash:ip
ipset create kube-router-svip hash:ip
ipset create kube-router-svip-prt hash:ip,port
ipset create kube-router-node-ips hash:ip
ipset add kube-router-local-ips 10.200.0.2
for vip in 10.96.7.1 10.96.7.2 192.0.2.70; do ipset add kube-router-svip $vip; done
ipset add kube-router-svip-prt 10.96.7.1,tcp:80
ipset add kube-router-svip-prt 10.96.7.2,udp:53
ipset add kube-router-svip-prt 192.0.2.70,tcp:80
iptables-legacy -N KUBE-ROUTER-SERVICES
iptables-legacy -A KUBE-ROUTER-SERVICES -m set --match-set kube-router-svip-prt dst,dst -j ACCEPT
iptables-legacy -A KUBE-ROUTER-SERVICES -p icmp --icmp-type echo-request -j ACCEPT
iptables-legacy -A KUBE-ROUTER-SERVICES -m set ! --match-set kube-router-local-ips dst -j REJECT
iptables-legacy -I INPUT -m comment --comment "handle traffic to IPVS service IPs in custom chain" \
  -m set --match-set kube-router-svip dst -j KUBE-ROUTER-SERVICES
iptables-legacy -t nat -N KUBE-ROUTER-HAIRPIN
iptables-legacy -t nat -A POSTROUTING -m ipvs --vdir ORIGINAL --vmethod MASQ -j KUBE-ROUTER-HAIRPIN
)";

void put_router_services(TrafficBed& bed, bool more) {
  const auto endpoints = endpoints_of({&bed.cluster.local(), &bed.cluster.remote()});
  ServiceManifest web{.name = "web",
                      .type = "LoadBalancer",
                      .cluster_ips = {"10.96.7.1"},
                      .ports = {{.name = "http", .node_port = 31070}},
                      .endpoints = endpoints,
                      .ingress_ips = {"192.0.2.70"}};
  if (more) web.ports.push_back({.name = "more", .port = 81, .node_port = 31071});
  bed.manifests.put(web);
  bed.manifests.put({.name = "names",
                     .cluster_ips = {"10.96.7.2"},
                     .ports = {{.name = "dns", .protocol = Protocol::udp, .port = 53}},
                     .endpoints = endpoints});
}

bool is_of_pod(const std::string& outcome) {
  return outcome.starts_with("local-1 sees") || outcome.starts_with("remote-1 sees");
}

TEST_CASE("kernel: kube-router: what it left is taken over, and is no place for node ports",
          "[kube_router]") {
  if (on_nftables()) return;
  TrafficBed bed;
  const auto& cluster = bed.cluster;
  const auto& netns = cluster.netns();
  printed_in(netns, kLeft);
  put_router_services(bed, false);
  const auto flags = fmt::format("{}", fmt::join(bed.manifests.flags(), " "));
  const auto check = printed_in(netns, ipvs_proxier_word() + " " + flags + " --check 2>&1");
  INFO(check);
  CHECK(says(check, "kube-router"));

  Daemon daemon(netns, bed.manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  INFO(daemon.log());
  CHECK(daemon.logs("took over from kube-router"));
  for (int i = 0; i < 6; ++i) {
    CHECK(is_of_pod(answer(cluster.client(), Protocol::tcp, "192.0.2.70", 80)));
    CHECK(is_of_pod(answer(cluster.client(), Protocol::tcp, "10.200.0.2", 31070)));
    CHECK(is_of_pod(answer(cluster.local(2), Protocol::tcp, "10.96.7.1", 80)));
    CHECK(is_of_pod(answer(cluster.local(2), Protocol::udp, "10.96.7.2", 53)));
    CHECK(is_of_pod(answer(cluster.node(), Protocol::tcp, "10.96.7.1", 80)));
  }
  const auto services = virtual_services_in(netns);
  INFO(services);
  CHECK(says(services, "-a -t 192.0.2.71:80 -r 10.244.0.99:8080"));  // another program's
  // The endpoint that ended long ago drains, as any that leaves.
  CHECK(eventually(
      [&] { return !says(virtual_services_in(netns), "192.0.2.70:80 -r 10.244.0.99"); }));
  CHECK_FALSE(says(services, "10.96.7.1:31070"));
  CHECK_FALSE(says(services, "192.0.2.70:31070"));

  put_router_services(bed, true);
  REQUIRE(eventually([&] { return says(virtual_services_in(netns), "-A -t 10.96.7.1:81"); }));
  CHECK(is_of_pod(answer(cluster.local(2), Protocol::tcp, "10.96.7.1", 81)));
  CHECK(is_of_pod(answer(cluster.client(), Protocol::tcp, "192.0.2.70", 81)));
  // Our link has all addresses: nothing changes when that one is removed.
  netns.ip("link del kube-dummy-if\n");
  CHECK(is_of_pod(answer(cluster.client(), Protocol::tcp, "192.0.2.70", 80)));
  CHECK(daemon.terminate() == 0);
}

TEST_CASE("kernel: kube-router: cleanup removes what is its service proxy's and names the rest",
          "[kube_router]") {
  if (on_nftables()) return;
  const TrafficBed bed;
  const auto& netns = bed.cluster.netns();
  printed_in(netns, kLeft);
  const auto log = printed_in(netns, ipvs_proxier_word() + " --cleanup 2>&1; echo \"status $?\"");
  INFO(log);
  CHECK(says(log, "status 0"));
  CHECK(printed_in(netns, "ip -o link show kube-dummy-if 2>/dev/null") == "");
  const auto rules = printed_in(netns, "iptables-legacy-save");
  INFO(rules);
  CHECK_FALSE(says(rules, "KUBE-ROUTER"));
  const auto sets = printed_in(netns, "ipset list -n");
  INFO(sets);
  CHECK_FALSE(says(sets, "kube-router-svip"));
  CHECK_FALSE(says(sets, "kube-router-local-ips"));
  CHECK(says(sets, "kube-router-node-ips"));  // of its routing
  const auto services = virtual_services_in(netns);
  CHECK_FALSE(says(services, "10.96.7.1"));
  CHECK_FALSE(says(services, "192.0.2.70"));
  CHECK(says(services, "192.0.2.71:80"));
  CHECK(says(services, "10.200.0.2:31070"));
  CHECK(says(log, "10.200.0.2:31070"));  // told
}

}  // namespace
}  // namespace ipvsproxier::test
