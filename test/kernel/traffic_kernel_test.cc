// Whom a request through a Service reaches, and which source address the backend sees there.

#include <catch2/catch.hpp>

#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

// Addresses of one family. A backend on n1 sees masqueraded packets come from the bridge's address,
// one on n2 from n1's.
struct ReachedAddresses {
  const char* at_local;   // cluster IP of a Service with the pod local-1
  const char* at_remote;  // with remote-1
  const char* local_policy;
  const char* at_host;  // with a server of n1 itself, like the API server's
  const char* node;
  const char* bridge;
  const char* client;
  const char* local_1;
  const char* local_2;
  const char* remote_1;
};

constexpr ReachedAddresses kReached4 = {.at_local = "10.96.0.20",
                                        .at_remote = "10.96.0.21",
                                        .local_policy = "10.96.0.22",
                                        .at_host = "10.96.0.23",
                                        .node = "10.200.0.2",
                                        .bridge = "10.244.0.1",
                                        .client = "203.0.113.7",
                                        .local_1 = "10.244.0.11",
                                        .local_2 = "10.244.0.12",
                                        .remote_1 = "10.244.1.11"};
constexpr ReachedAddresses kReached6 = {.at_local = "fd00:96::20",
                                        .at_remote = "fd00:96::21",
                                        .local_policy = "fd00:96::22",
                                        .at_host = "fd00:96::23",
                                        .node = "fd00:200::2",
                                        .bridge = "fd00:244::1",
                                        .client = "2001:db8:7::7",
                                        .local_1 = "fd00:244::11",
                                        .local_2 = "fd00:244::12",
                                        .remote_1 = "fd00:244:0:1::11"};

constexpr std::uint16_t kAtLocal = 30080;  // node ports
constexpr std::uint16_t kAtRemote = 30081;
constexpr std::uint16_t kLocalPolicy = 30082;
constexpr std::uint16_t kAtHost = 30083;

void put_reached_services(TrafficBed& bed) {
  const Pod& local = bed.cluster.local(1);
  const Pod& remote = bed.cluster.remote(1);
  bed.manifests.put({.name = "at-local",
                     .type = "NodePort",
                     .cluster_ips = {kReached4.at_local, kReached6.at_local},
                     .ports = tcp_and_udp(kAtLocal),
                     .endpoints = endpoints_of({&local})});
  bed.manifests.put({.name = "at-remote",
                     .type = "NodePort",
                     .cluster_ips = {kReached4.at_remote, kReached6.at_remote},
                     .ports = tcp_and_udp(kAtRemote),
                     .endpoints = endpoints_of({&remote})});
  bed.manifests.put({.name = "local-policy",
                     .type = "NodePort",
                     .cluster_ips = {kReached4.local_policy, kReached6.local_policy},
                     .ports = tcp_and_udp(kLocalPolicy),
                     .endpoints = endpoints_of({&local, &remote}),
                     .spec = "externalTrafficPolicy: Local"});
  bed.manifests.put(
      {.name = "at-host",
       .type = "NodePort",
       .cluster_ips = {kReached4.at_host, kReached6.at_host},
       .ports = tcp_and_udp(kAtHost),
       .endpoints = {{bed.cluster.node().v4, kNodeName}, {bed.cluster.node().v6, kNodeName}}});
}

struct Expectation {
  const Host& from;
  std::string to;
  std::uint16_t port;
  std::string answer;
};

void check(const std::vector<Expectation>& expectations) {
  for (const auto& expected : expectations) {
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
      INFO(expected.from.name << " to " << netlink::to_string(protocol) << " " << expected.to
                              << " port " << expected.port);
      CHECK(answer(expected.from, protocol, expected.to, expected.port) == expected.answer);
    }
  }
}

std::string local_sees(const std::string& address) {
  return "local-1 sees " + address;
}

std::string remote_sees(const std::string& address) {
  return "remote-1 sees " + address;
}

void check_cluster_ips(const Cluster& cluster, const ReachedAddresses& a) {
  check({
      // (a) from outside the pod range: masqueraded
      {cluster.client(), a.at_local, 80, local_sees(a.bridge)},
      {cluster.client(), a.at_remote, 80, remote_sees(a.node)},
      {cluster.node(), a.at_local, 80, local_sees(a.bridge)},
      {cluster.node(), a.at_remote, 80, remote_sees(a.node)},
      // (b) a pod that reaches itself: masqueraded
      {cluster.local(1), a.at_local, 80, local_sees(a.bridge)},
      // (c) other pods keep their addresses
      {cluster.local(2), a.at_local, 80, local_sees(a.local_2)},
      {cluster.local(2), a.at_remote, 80, remote_sees(a.local_2)},
      {cluster.remote(1), a.at_local, 80, local_sees(a.remote_1)},
      {cluster.local(2), a.at_host, 80, std::string("host sees ") + a.local_2},
      {cluster.node(), a.at_host, 80, std::string("host sees ") + a.node},
      {cluster.client(), a.at_host, 80, std::string("host sees ") + a.client},
  });
}

void check_node_ports(const Cluster& cluster, const ReachedAddresses& a) {
  check({
      // (d) masqueraded for everybody
      {cluster.client(), a.node, kAtLocal, local_sees(a.bridge)},
      {cluster.client(), a.node, kAtRemote, remote_sees(a.node)},
      {cluster.remote(1), a.node, kAtLocal, local_sees(a.bridge)},
      {cluster.local(1), a.node, kAtLocal, local_sees(a.bridge)},
      {cluster.local(2), a.node, kAtLocal, local_sees(a.bridge)},
      {cluster.local(2), a.bridge, kAtRemote, remote_sees(a.node)},
      {cluster.node(), a.node, kAtLocal, local_sees(a.bridge)},
      {cluster.node(), a.node, kAtRemote, remote_sees(a.node)},
      // with the local policy it stays on the node and keeps its address
      {cluster.client(), a.node, kLocalPolicy, local_sees(a.client)},
      {cluster.client(), a.node, kLocalPolicy, local_sees(a.client)},
  });
}

// Pods are those behind the bridge: a pod of another node is a stranger here.
void check_local_pods_alone(const Cluster& cluster, const ReachedAddresses& a) {
  check({
      {cluster.local(2), a.at_local, 80, local_sees(a.local_2)},
      {cluster.local(2), a.at_remote, 80, remote_sees(a.local_2)},
      {cluster.client(), a.at_local, 80, local_sees(a.bridge)},
      {cluster.remote(1), a.at_local, 80, local_sees(a.bridge)},
      {cluster.node(), a.at_local, 80, local_sees(a.bridge)},
      {cluster.node(), a.at_remote, 80, remote_sees(a.node)},
  });
}

void check_masquerade_all(const Cluster& cluster, const ReachedAddresses& a) {
  check({
      {cluster.local(2), a.at_local, 80, local_sees(a.bridge)},
      {cluster.local(2), a.at_remote, 80, remote_sees(a.node)},
      {cluster.client(), a.at_local, 80, local_sees(a.bridge)},
      {cluster.client(), a.node, kLocalPolicy, local_sees(a.client)},
  });
}

// Without a way to tell pods from others nobody is masqueraded but the node, whose packets come
// from the Service's own address, or one of its own.
void check_no_detector(const Cluster& cluster, const ReachedAddresses& a) {
  check({
      {cluster.client(), a.at_local, 80, local_sees(a.client)},
      {cluster.local(2), a.at_local, 80, local_sees(a.local_2)},
      {cluster.local(2), a.at_remote, 80, remote_sees(a.local_2)},
      {cluster.local(1), a.at_local, 80, local_sees(a.bridge)},
      {cluster.node(), a.at_local, 80, local_sees(a.bridge)},
      {cluster.node(), a.at_remote, 80, remote_sees(a.node)},
      {cluster.client(), a.node, kAtRemote, remote_sees(a.node)},
  });
}

void check_cluster_cidr(const Cluster& cluster, const ReachedAddresses& a) {
  check_cluster_ips(cluster, a);
  check_node_ports(cluster, a);
}

using FamilyCheck = void (*)(const Cluster& cluster, const ReachedAddresses& a);

// What a configuration means for the traffic of each family.
struct Configuration {
  std::string lines;
  FamilyCheck check4;
  FamilyCheck check6;
};

const Configuration kConfigurations[] = {
    {"", check_cluster_cidr, check_cluster_cidr},
    {std::string("iptables: {masqueradeAll: true}\ndetectLocalMode: ClusterCIDR\nclusterCIDR: \"") +
         kPodRanges + "\"\n",
     check_masquerade_all, check_masquerade_all},
    {"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}\n",
     check_local_pods_alone, check_local_pods_alone},
    {"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: cn}\n",
     check_local_pods_alone, check_local_pods_alone},
    {"detectLocalMode: NodeCIDR\n", check_local_pods_alone, check_local_pods_alone},
    {"detectLocalMode: ClusterCIDR\n", check_no_detector, check_no_detector},
    {"detectLocalMode: ClusterCIDR\nclusterCIDR: \"10.244.0.0/16\"\n", check_cluster_cidr,
     check_no_detector},
};

TEST_CASE("kernel: traffic: who is masqueraded") {
  TrafficBed bed;
  bed.by_routes = GENERATE(false, true);
  const Cluster& cluster = bed.cluster;
  const auto host = serve_on_host(cluster, {cluster.node().v4, cluster.node().v6}, kEchoPort);
  put_reached_services(bed);
  // One cluster for all configurations: it takes longer than their requests.
  for (const auto& configuration : kConfigurations) {
    INFO(configuration.lines);
    if (!configuration.lines.empty()) bed.manifests.configure(configuration.lines);
    bed.program();
    configuration.check4(cluster, kReached4);
    configuration.check6(cluster, kReached6);
  }
}

}  // namespace
}  // namespace ipvsproxier::test
