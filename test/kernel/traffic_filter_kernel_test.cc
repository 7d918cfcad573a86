// Who is let in: source ranges of load balancers, external IPs, what a VIP answers that is no
// Service.

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr std::uint16_t kHostPort = 22;

struct FilteredAddresses {
  const char* cluster_ip;
  const char* for_client;    // load balancer that lets the client's network in
  const char* for_node;      // ... the network of n1
  const char* for_all;       // ... the stranger by its address, and everybody
  const char* local_policy;  // ... the client's network, local policy
  const char* external;      // external IP, cluster policy
  const char* external_local;
  const char* node;
  const char* bridge;
  const char* client;
  const char* stranger;
  const char* pod;
};

constexpr FilteredAddresses kFiltered4 = {.cluster_ip = "10.96.0.30",
                                          .for_client = "192.0.2.10",
                                          .for_node = "192.0.2.11",
                                          .for_all = "192.0.2.12",
                                          .local_policy = "192.0.2.13",
                                          .external = "192.0.2.20",
                                          .external_local = "192.0.2.21",
                                          .node = "10.200.0.2",
                                          .bridge = "10.244.0.1",
                                          .client = "203.0.113.7",
                                          .stranger = "198.51.100.9",
                                          .pod = "10.244.0.12"};
constexpr FilteredAddresses kFiltered6 = {.cluster_ip = "fd00:96::30",
                                          .for_client = "2001:db8:2::10",
                                          .for_node = "2001:db8:2::11",
                                          .for_all = "2001:db8:2::12",
                                          .local_policy = "2001:db8:2::13",
                                          .external = "2001:db8:2::20",
                                          .external_local = "2001:db8:2::21",
                                          .node = "fd00:200::2",
                                          .bridge = "fd00:244::1",
                                          .client = "2001:db8:7::7",
                                          .stranger = "2001:db8:9::9",
                                          .pod = "fd00:244::12"};

// A load balancer in front of local-1; `number` makes its cluster IP and node port.
ServiceManifest load_balancer(const Cluster& cluster, const std::string& name, int number,
                              const char* v4, const char* v6, const std::string& ranges) {
  return {
      .name = name,
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0." + std::to_string(number), "fd00:96::" + std::to_string(number)},
      .ports = {{.node_port = static_cast<std::uint16_t>(30000 + number)}},
      .endpoints = endpoints_of({&cluster.local(1)}),
      .spec = "loadBalancerSourceRanges: [" + ranges + "]",
      .ingress_ips = {v4, v6}};
}

void put_load_balancers(TrafficBed& bed) {
  const std::string client_ranges = "203.0.113.0/24, \"2001:db8:7::/64\"";
  bed.manifests.put(load_balancer(bed.cluster, "for-client", 30, kFiltered4.for_client,
                                  kFiltered6.for_client, client_ranges));
  bed.manifests.put(load_balancer(bed.cluster, "for-node", 31, kFiltered4.for_node,
                                  kFiltered6.for_node, "10.200.0.0/24, \"fd00:200::/64\""));
  bed.manifests.put(load_balancer(bed.cluster, "for-all", 32, kFiltered4.for_all,
                                  kFiltered6.for_all,
                                  "198.51.100.9/32, 0.0.0.0/0, \"2001:db8:9::9/128\", \"::/0\""));
  auto local_policy = load_balancer(bed.cluster, "local-policy", 33, kFiltered4.local_policy,
                                    kFiltered6.local_policy, client_ranges);
  local_policy.spec += ", externalTrafficPolicy: Local, healthCheckNodePort: 32033";
  bed.manifests.put(local_policy);
}

TEST_CASE("kernel: traffic: load-balancer source ranges let in and keep out") {
  TrafficBed bed({.local_pods = 2, .remote_pods = 0});
  bed.by_routes = GENERATE(false, true);
  const Cluster& cluster = bed.cluster;
  put_load_balancers(bed);
  bed.program();
  const auto ask = [](const Host& from, const char* to, int wait = 5000) {
    return answer(from, Protocol::tcp, to, 80, wait);
  };
  for (const FilteredAddresses& a : {kFiltered4, kFiltered6}) {
    INFO(a.cluster_ip);
    const std::string masqueraded = std::string("local-1 sees ") + a.bridge;
    CHECK(ask(cluster.client(), a.for_client) == masqueraded);
    CHECK(ask(cluster.stranger(), a.for_client, kShortWait) == "no answer");
    CHECK(ask(cluster.local(2), a.for_client, kShortWait) == "no answer");
    CHECK(ask(cluster.node(), a.for_client, kShortWait) == "no answer");

    CHECK(ask(cluster.node(), a.for_node) == masqueraded);
    CHECK(ask(cluster.client(), a.for_node, kShortWait) == "no answer");

    CHECK(ask(cluster.stranger(), a.for_all) == masqueraded);
    CHECK(ask(cluster.client(), a.for_all) == masqueraded);
    CHECK(ask(cluster.local(2), a.for_all) == masqueraded);
    CHECK(ask(cluster.node(), a.for_all) == masqueraded);

    CHECK(ask(cluster.client(), a.local_policy) == std::string("local-1 sees ") + a.client);
    CHECK(ask(cluster.stranger(), a.local_policy, kShortWait) == "no answer");

    // They protect the load balancer's address only.
    CHECK(ask(cluster.stranger(), a.cluster_ip) == masqueraded);
    CHECK(answer(cluster.stranger(), Protocol::tcp, a.node, 30030) == masqueraded);
  }
}

void put_external_services(TrafficBed& bed) {
  const auto endpoints = endpoints_of({&bed.cluster.local(1)});
  // Two addresses of its own, and two that the node has.
  bed.manifests.put({.name = "external",
                     .cluster_ips = {kFiltered4.cluster_ip, kFiltered6.cluster_ip},
                     .ports = tcp_and_udp(),
                     .endpoints = endpoints,
                     .spec = std::string("externalIPs: [") + kFiltered4.external + ", \"" +
                             kFiltered6.external + "\", " + kFiltered4.node + ", \"" +
                             kFiltered6.node + "\"]"});
  bed.manifests.put({.name = "external-local",
                     .cluster_ips = {"10.96.0.31", "fd00:96::31"},
                     .ports = tcp_and_udp(),
                     .endpoints = endpoints,
                     .spec = std::string("externalTrafficPolicy: Local, externalIPs: [") +
                             kFiltered4.external_local + ", \"" + kFiltered6.external_local +
                             "\"]"});
  bed.manifests.put(
      load_balancer(bed.cluster, "balanced", 32, kFiltered4.for_client, kFiltered6.for_client, ""));
}

void check_external(const Cluster& cluster, const FilteredAddresses& a) {
  for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
    INFO(netlink::to_string(protocol));
    for (const Host* from : three_sides(cluster)) {
      for (const char* address : {a.external, a.node}) {
        INFO(from->name << " to " << address);
        CHECK(answer(*from, protocol, address, 80) == std::string("local-1 sees ") + a.bridge);
      }
    }
    CHECK(answer(cluster.client(), protocol, a.external_local, 80) ==
          std::string("local-1 sees ") + a.client);
    CHECK(answer(cluster.local(2), protocol, a.external_local, 80) ==
          std::string("local-1 sees ") + a.pod);
  }
}

// A server of the host is there at the host's own addresses, and not behind those of Services.
void check_host_port(const Cluster& cluster, const FilteredAddresses& a) {
  for (const Host* from : three_sides(cluster)) {
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
      // A UDP server that is bound to no address answers with that of the link.
      const char* own = from->name == "local-2" ? a.bridge : a.node;
      INFO(from->name << " " << netlink::to_string(protocol));
      CHECK(answer(*from, protocol, own, kHostPort).starts_with("host sees "));
      for (const char* vip : {a.cluster_ip, a.external, a.external_local, a.for_client}) {
        INFO(vip);
        CHECK(answer(*from, protocol, vip, kHostPort) == "refused");
      }
    }
  }
}

void check_pings(const Cluster& cluster, const FilteredAddresses& a, int sys_errno) {
  for (const Host* from : three_sides(cluster)) {
    for (const char* vip : {a.cluster_ip, a.external, a.external_local, a.for_client}) {
      const auto pinged = from->ping(ip(vip));
      INFO(from->name << " to " << vip);
      CHECK((pinged ? 0 : pinged.error().sys_errno) == sys_errno);
    }
  }
}

TEST_CASE("kernel: traffic: external IPs, pings, and ports that are no Service") {
  TrafficBed bed({.local_pods = 2, .remote_pods = 0});
  bed.by_routes = GENERATE(false, true);
  const auto host = serve_on_host(bed.cluster,
                                  {netlink::IpAddress::any(netlink::Family::ipv4),
                                   netlink::IpAddress::any(netlink::Family::ipv6)},
                                  kHostPort);
  put_external_services(bed);
  bed.program();
  for (const FilteredAddresses& a : {kFiltered4, kFiltered6}) {
    check_external(bed.cluster, a);
    check_host_port(bed.cluster, a);
    check_pings(bed.cluster, a, 0);
  }

  // --kube-proxy-compat is for iptables alone.
  bed.program({bed.by_routes || on_nftables() ? "--vip-ping=false" : "--kube-proxy-compat"});
  for (const FilteredAddresses& a : {kFiltered4, kFiltered6}) {
    check_external(bed.cluster, a);
    check_pings(bed.cluster, a, ECONNREFUSED);
  }
}

}  // namespace
}  // namespace ipvsproxier::test
