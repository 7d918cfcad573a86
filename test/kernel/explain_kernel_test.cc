// `ipvsctl explain` against packets: what it says of random pairs of source and destination, and
// what became of a real packet between them, source address included.

#include <algorithm>
#include <random>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/explain_prober.h"
#include "test/kernel/nft_worlds.h"
#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

constexpr int kServices = 12;
constexpr std::uint16_t kHostPort = 22;
const std::set<std::string> kOfSockets = {"host port", "closed host port", "health check",
                                          "host port of a VIP"};

class ExplainBed {
 public:
  explicit ExplainBed(const std::vector<Protocol>& protocols)
      : bed_({.local_pods = 3,
              .remote_pods = 2,
              .sctp = std::ranges::count(protocols, Protocol::sctp) > 0}),
        random_(Catch::rngSeed()),
        protocols_(protocols),
        prober_(bed_.cluster) {
    put_services();
    serve();
  }

  const Cluster& cluster() const { return bed_.cluster; }
  TrafficBed& bed() { return bed_; }

  void check(int probes) {
    for (int i = 0; i < probes; ++i) kinds.insert(kind_of(prober_.check(any_probe())));
  }

  std::set<std::string> kinds;  // of outcomes that there were

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  template <typename T>
  const T& one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  void put_services();
  void serve();
  Sender any_sender(Family family);
  Probe any_probe();
  void aim(Probe& probe, Family family);

  TrafficBed bed_;
  std::mt19937 random_;
  std::vector<Protocol> protocols_;  // of probes
  Prober prober_;
  std::vector<std::unique_ptr<EchoServer>> host_servers_;
};

std::string address_of(const char* v4, const char* v6, Family family, int number) {
  return (family == Family::ipv4 ? v4 : v6) + std::to_string(number);
}

// Port 80 of each.
std::vector<PortManifest> ports_of(const std::vector<Protocol>& protocols,
                                   std::uint16_t node_port) {
  std::vector<PortManifest> ports;
  for (const auto protocol : protocols)
    ports.push_back({.name = std::string(netlink::to_lower_string(protocol)),
                     .protocol = protocol,
                     .port = 80,
                     .node_port = node_port});
  return ports;
}

// Every facet, with random policies, source ranges, affinity and endpoints.
void ExplainBed::put_services() {
  const auto& cluster = bed_.cluster;
  const Pod host{{"host", nullptr, cluster.node().v4, cluster.node().v6}, kNodeName, {}, {}};
  const std::vector<std::vector<const Pod*>> backends = {
      {&cluster.local(1)},
      {&cluster.remote(1)},
      {&cluster.local(1), &cluster.remote(1)},
      {&cluster.local(1), &cluster.local(2), &cluster.remote(2)},
      {},
      {&host},
  };
  const std::vector<std::string> ranges = {
      "",
      "",
      "203.0.113.0/24, \"2001:db8:7::/64\"",
      "10.200.0.0/24, \"fd00:200::/64\"",
      "10.244.0.12/32, 198.51.100.9/32, \"fd00:244::12/128\", \"2001:db8:9::9/128\"",
  };
  for (int i = 0; i < kServices; ++i) {
    std::string spec = "loadBalancerSourceRanges: [" + one_of(ranges) + "], externalIPs: [" +
                       address_of("192.0.2.", "", Family::ipv4, 100 + i) + ", \"" +
                       address_of("", "2001:db8:2::", Family::ipv6, 100 + i) + "\"]";
    if (below(2) == 0)
      spec += ", externalTrafficPolicy: Local, healthCheckNodePort: " + std::to_string(32000 + i);
    if (below(4) == 0) spec += ", internalTrafficPolicy: Local";
    if (below(4) == 0) spec += ", sessionAffinity: ClientIP";
    const auto node_port = static_cast<std::uint16_t>(30000 + i);
    bed_.manifests.put(
        {.name = "s" + std::to_string(i),
         .type = "LoadBalancer",
         .cluster_ips = {address_of("10.96.0.", "", Family::ipv4, 20 + i),
                         address_of("", "fd00:96::", Family::ipv6, 20 + i)},
         .ports = ports_of(protocols_, node_port),
         .endpoints = endpoints_of(backends[static_cast<std::size_t>(i) % backends.size()]),
         .spec = spec,
         .ingress_ips = {address_of("192.0.2.", "", Family::ipv4, 10 + i),
                         address_of("", "2001:db8:2::", Family::ipv6, 10 + i)}});
  }
}

// Servers of n1: the pod port at its own addresses, a port at any address, one health check port.
void ExplainBed::serve() {
  const auto& node = bed_.cluster.node();
  host_servers_ = serve_on_host(bed_.cluster, {node.v4, node.v6}, kEchoPort, protocols_);
  bed_.cluster.netns().inside([&] {
    const auto start = [&](const IpAddress& address, std::uint16_t port, Protocol protocol) {
      host_servers_.push_back(require(EchoServer::start("host", address, port, {protocol})));
    };
    for (const auto family : netlink::kFamilies) {
      start(IpAddress::any(family), kHostPort, Protocol::tcp);
      start(IpAddress::any(family), 32000, Protocol::tcp);
      start(node.address(family), kHostPort, Protocol::udp);
    }
  });
}

Sender ExplainBed::any_sender(Family family) {
  const auto& cluster = bed_.cluster;
  const bool v4 = family == Family::ipv4;
  const std::vector<Sender> senders = {
      {.host = &cluster.client(), .outside = true},
      {.host = &cluster.stranger(), .outside = true},
      {.host = &prober_.n2()},
      {.host = &cluster.remote(1)},
      {.host = &cluster.local(1)},
      {.host = &cluster.local(2)},
      {.host = &cluster.local(3)},
      {.host = &cluster.node(), .on_node = true},
      {.host = &cluster.node(), .on_node = true, .source = cluster.node().address(family)},
      {.host = &cluster.node(), .on_node = true, .source = ip(v4 ? "10.244.0.1" : "fd00:244::1")},
      {.host = &cluster.node(), .on_node = true, .source = ip(v4 ? "127.0.0.1" : "::1")},
  };
  return one_of(senders);
}

void ExplainBed::aim(Probe& probe, Family family) {
  const auto& cluster = bed_.cluster;
  const bool v4 = family == Family::ipv4;
  const int service = static_cast<int>(below(kServices));
  const auto cluster_ip = ip(address_of("10.96.0.", "fd00:96::", family, 20 + service));
  const auto balancer = ip(address_of("192.0.2.", "2001:db8:2::", family, 10 + service));
  const auto external = ip(address_of("192.0.2.", "2001:db8:2::", family, 100 + service));
  const auto node = cluster.node().address(family);
  const auto bridge = ip(v4 ? "10.244.0.1" : "fd00:244::1");
  const auto node_port = static_cast<std::uint16_t>(30000 + service);
  struct Aim {
    const char* facet;
    IpAddress address;
    std::uint16_t port;
  };
  const std::vector<Aim> aims = {
      {"cluster IP", cluster_ip, 80},
      {"cluster IP", cluster_ip, 80},
      {"load balancer", balancer, 80},
      {"load balancer", balancer, 80},
      {"external IP", external, 80},
      {"external IP", external, 80},
      {"node port", node, node_port},
      {"node port", node, node_port},
      {"node port", bridge, node_port},
      {"node port of a VIP", cluster_ip, node_port},
      {"health check", node, static_cast<std::uint16_t>(32000 + below(2))},
      {"wrong port", one_of(std::vector{cluster_ip, balancer, external}), 81},
      {"host port of a VIP", one_of(std::vector{cluster_ip, balancer, external}), kHostPort},
      {"pod", cluster.local(1 + static_cast<int>(below(3))).address(family), kEchoPort},
      {"pod", cluster.remote(1 + static_cast<int>(below(2))).address(family), kEchoPort},
      {"closed port of a pod", cluster.local(2).address(family), 81},
      {"host port", node, kHostPort},
      {"closed host port", node, 81},
      {"closed host port", node, 8443},
      {"no Service", ip(v4 ? "10.96.200.1" : "fd00:96::2001"), 80},
  };
  const auto aim = one_of(aims);
  probe.facet = aim.facet;
  probe.destination = aim.address;
  probe.port = aim.port;
}

// One whose packet comes to n1.
Probe ExplainBed::any_probe() {
  while (true) {
    const auto family = below(2) == 0 ? Family::ipv4 : Family::ipv6;
    Probe probe{.sender = any_sender(family), .protocol = one_of(protocols_)};
    aim(probe, family);
    // Which sockets take SCTP explain does not know.
    if (probe.protocol == Protocol::sctp && kOfSockets.count(probe.facet) > 0) continue;
    const auto& host = *probe.sender.host;
    if (is_pod_address(probe.destination)) {
      const auto& cluster = bed_.cluster;
      const bool on_n2 = probe.destination == cluster.remote(1).address(family) ||
                         probe.destination == cluster.remote(2).address(family);
      if (probe.sender.outside || (on_n2 && host.netns == prober_.n2().netns)) continue;
      if (probe.destination == host.address(family)) continue;
    }
    if (probe.sender.outside && is_bridge_address(probe.destination)) continue;
    return probe;
  }
}

// A host that lets in what it knows. ICMP, without which nobody finds his neighbours, is a rule
// that cannot be judged.
void raise_firewall() {
  for (const std::string program : {"iptables", "ip6tables"})
    shell(
        fmt::format("{0} -A INPUT -i lo -j ACCEPT && {0} -A INPUT -m conntrack --ctstate "
                    "RELATED,ESTABLISHED -j ACCEPT && {0} -A INPUT -p {1} -j ACCEPT && "
                    "{0} -A FORWARD -p {1} -j ACCEPT && {0} -P INPUT DROP && "
                    "{0} -P FORWARD DROP",
                    program, program == "iptables" ? "icmp" : "ipv6-icmp"));
}

void raise_nft_firewall() {
  for (const std::string family : {"ip", "ip6"})
    shell(fmt::format(
        "nft 'table {0} host {{ chain in {{ type filter hook input priority 0; policy drop; "
        "iifname \"lo\" accept; ct state established,related accept; meta l4proto {1} accept; }}; "
        "chain through {{ type filter hook forward priority 0; policy drop; "
        "meta l4proto {1} accept; }}; }}'",
        family, family == "ip" ? "icmp" : "ipv6-icmp"));
}

// A few hundred packets; a run with another seed asks others.
TEST_CASE("kernel: explain says what packets do", "[explain]") {
  ExplainBed bed({Protocol::tcp, Protocol::udp});
  const auto check = [&](const std::string& what, int probes) {
    INFO(what);
    bed.bed().program();
    bed.check(probes);
  };
  check("cluster CIDR", 150);
  bed.bed().manifests.configure(
      "iptables: {masqueradeAll: true}\ndetectLocalMode: ClusterCIDR\nclusterCIDR: \"" +
      std::string(kPodRanges) + "\"\n");
  check("masquerade all", 100);
  bed.bed().manifests.configure(
      "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}\n");
  check("bridge", 100);
  bed.bed().manifests.configure("detectLocalMode: ClusterCIDR\n");
  check("nothing tells pods from others", 150);
  bed.cluster().netns().inside(on_nftables() ? raise_nft_firewall : raise_firewall);
  bed.check(120);
  for (const char* kind : {"served", "host", "leaves", "refused", "lost"})
    CHECK(bed.kinds.count(kind) == 1);
}

void check_worlds(ExplainBed& bed, int probes) {
  for (const auto& world : nft_worlds()) {
    INFO(world.name);
    bed.cluster().netns().inside([&] { shell(world.up); });
    bed.check(probes);
    bed.cluster().netns().inside([&] { shell(world.down); });
  }
}

// Daily where an interpreted kernel runs it.
TEST_CASE("kernel: explain says what a few packets do", "[.few]") {
  ExplainBed bed({Protocol::tcp, Protocol::udp});
  bed.bed().program();
  bed.check(16);
  check_worlds(bed, 4);
}

// Beside either packet filter of ours.
TEST_CASE("kernel: explain says what packets do among others' tables of nf_tables",
          "[.nft_worlds]") {
  ExplainBed bed({Protocol::tcp, Protocol::udp});
  bed.bed().program();
  check_worlds(bed, 60);
  for (const char* kind : {"served", "host", "leaves", "refused", "lost"})
    CHECK(bed.kinds.count(kind) == 1);
}

TEST_CASE("kernel: explain says what SCTP packets do", "[explain]") {
  ExplainBed bed({Protocol::sctp});
  bed.bed().program();
  bed.check(80);
  bed.bed().manifests.configure(
      "iptables: {masqueradeAll: true}\ndetectLocalMode: ClusterCIDR\nclusterCIDR: \"" +
      std::string(kPodRanges) + "\"\n");
  bed.bed().program();
  bed.check(80);
  for (const char* kind : {"served", "host", "leaves", "refused", "lost"})
    CHECK(bed.kinds.count(kind) == 1);
}

}  // namespace
}  // namespace ipvsproxier::test
