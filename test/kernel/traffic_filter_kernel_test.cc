// Who is let in: source ranges of load balancers, external IPs, what a VIP answers that is no
// Service.

#include <catch2/catch.hpp>

#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::Protocol;

constexpr std::uint16_t kHostPort = 22;

struct Addresses {
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

constexpr Addresses kV4 = {.cluster_ip = "10.96.0.30",
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
constexpr Addresses kV6 = {.cluster_ip = "fd00:96::30",
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

std::vector<PortManifest> tcp_and_udp(std::uint16_t port) {
  return {{.name = "t", .protocol = Protocol::tcp, .port = port},
          {.name = "u", .protocol = Protocol::udp, .port = port}};
}

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
  bed.manifests.put(
      load_balancer(bed.cluster, "for-client", 30, kV4.for_client, kV6.for_client, client_ranges));
  bed.manifests.put(load_balancer(bed.cluster, "for-node", 31, kV4.for_node, kV6.for_node,
                                  "10.200.0.0/24, \"fd00:200::/64\""));
  bed.manifests.put(load_balancer(bed.cluster, "for-all", 32, kV4.for_all, kV6.for_all,
                                  "198.51.100.9/32, 0.0.0.0/0, \"2001:db8:9::9/128\", \"::/0\""));
  auto local_policy = load_balancer(bed.cluster, "local-policy", 33, kV4.local_policy,
                                    kV6.local_policy, client_ranges);
  local_policy.spec += ", externalTrafficPolicy: Local, healthCheckNodePort: 32033";
  bed.manifests.put(local_policy);
}

TEST_CASE("kernel: traffic: load-balancer source ranges let in and keep out") {
  TrafficBed bed({.local_pods = 2, .remote_pods = 0});
  const Cluster& cluster = bed.cluster;
  put_load_balancers(bed);
  bed.program();
  const auto ask = [](const Host& from, const char* to, int wait = 3000) {
    return answer(from, Protocol::tcp, to, 80, wait);
  };
  for (const Addresses& a : {kV4, kV6}) {
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

TEST_CASE("kernel: traffic: external IPs, pings, and ports that are no Service") {
  TrafficBed bed({.local_pods = 2, .remote_pods = 0});
  const Cluster& cluster = bed.cluster;
  const auto serve = [&](const ServiceManifest& service) { bed.manifests.put(service); };
  const auto endpoints = endpoints_of({&cluster.local(1)});
  serve({.name = "external",
         .cluster_ips = {kV4.cluster_ip, kV6.cluster_ip},
         .ports = tcp_and_udp(80),
         .endpoints = endpoints,
         .spec = std::string("externalIPs: [") + kV4.external + ", \"" + kV6.external + "\", " +
                 kV4.node + ", \"" + kV6.node + "\"]"});
  serve({.name = "external-local",
         .cluster_ips = {"10.96.0.31", "fd00:96::31"},
         .ports = tcp_and_udp(80),
         .endpoints = endpoints,
         .spec = std::string("externalTrafficPolicy: Local, externalIPs: [") + kV4.external_local +
                 ", \"" + kV6.external_local + "\"]"});
  serve(load_balancer(cluster, "balanced", 32, kV4.for_client, kV6.for_client, ""));
  const auto host_servers = cluster.netns().inside([] {
    std::vector<std::unique_ptr<EchoServer>> servers;
    for (const Family family : netlink::kFamilies) {
      servers.push_back(EchoServer::start("host", netlink::IpAddress::any(family), kHostPort,
                                          {Protocol::tcp, Protocol::udp})
                            .value());
    }
    return servers;
  });
  bed.program();
  for (const Addresses& a : {kV4, kV6}) {
    const std::string masqueraded = std::string("local-1 sees ") + a.bridge;
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
      INFO(a.cluster_ip << " " << netlink::to_string(protocol));
      for (const Host* from :
           {&cluster.client(), &cluster.node(), static_cast<const Host*>(&cluster.local(2))}) {
        INFO(from->name);
        CHECK(answer(*from, protocol, a.external, 80) == masqueraded);
        CHECK(answer(*from, protocol, a.node, 80) == masqueraded);
        // The host's own server is there, but not behind a VIP.
        CHECK(answer(*from, protocol, from->name == "local-2" ? a.bridge : a.node, kHostPort)
                  .starts_with("host sees "));
        for (const char* vip : {a.cluster_ip, a.external, a.external_local, a.for_client}) {
          INFO(vip);
          CHECK(answer(*from, protocol, vip, kHostPort) == "refused");
          CHECK(from->ping(address_of(vip)));
        }
      }
      CHECK(answer(cluster.client(), protocol, a.external_local, 80) ==
            std::string("local-1 sees ") + a.client);
      CHECK(answer(cluster.local(2), protocol, a.external_local, 80) ==
            std::string("local-1 sees ") + a.pod);
    }
  }

  bed.program({"--kube-proxy-compat"});
  for (const Addresses& a : {kV4, kV6}) {
    for (const Host* from :
         {&cluster.client(), &cluster.node(), static_cast<const Host*>(&cluster.local(2))}) {
      const auto pinged = from->ping(address_of(a.cluster_ip));
      INFO(from->name << " " << a.cluster_ip);
      REQUIRE_FALSE(pinged);
      CHECK(pinged.error().sys_errno == ECONNREFUSED);
      CHECK(answer(*from, Protocol::tcp, a.cluster_ip, 80).starts_with("local-1"));
      CHECK(answer(*from, Protocol::tcp, a.cluster_ip, kHostPort) == "refused");
    }
  }
}

}  // namespace
}  // namespace ipvsproxier::test
