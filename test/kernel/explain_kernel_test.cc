// `ipvsctl explain` against packets: what it says of random pairs of source and destination, and
// what became of a real packet between them, source address included.

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "cmd/node_reading.h"
#include "proxier/inspect/packet_walk.h"
#include "test/kernel/sniffer.h"
#include "test/kernel/traffic.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

constexpr int kServices = 12;
constexpr std::uint16_t kHostPort = 22;

// A sender: a host, and for one with several addresses which it takes.
struct Sender {
  const Host* host = nullptr;
  bool on_node = false;
  bool outside = false;             // knows no way to pods
  std::optional<IpAddress> source;  // nullopt: it chooses
};

struct Probe {
  Sender sender;
  Protocol protocol = Protocol::tcp;
  IpAddress destination;
  std::uint16_t port = 0;
  std::string facet;
};

// What became of a packet, or what is said of it: "10.244.0.11:8080 sees 10.244.0.1" for a pod,
// "host sees ..." for a server of n1, "leaves by 3 as ...", "refused: ICMP port unreachable",
// "lost".
using Outcome = std::string;

std::string seen_at(const IpAddress& address, std::uint16_t port, const IpAddress& source) {
  return netlink::to_string(address, port) + " sees " + source.to_string();
}

class ExplainBed {
 public:
  ExplainBed()
      : bed_({.local_pods = 3, .remote_pods = 2}),
        random_(Catch::rngSeed()),
        n2_{"n2", bed_.cluster.remote(1).netns, ip("10.200.0.3"), ip("fd00:200::3")},
        node_sniffer_(bed_.cluster.netns()) {
    const auto& cluster = bed_.cluster;
    for (const auto* host : std::initializer_list<const Host*>{
             &cluster.client(), &cluster.stranger(), &n2_, &cluster.local(1), &cluster.local(2),
             &cluster.local(3)})
      sniffers_.emplace(host->netns, *host->netns);
    put_services();
    serve();
  }

  const Cluster& cluster() const { return bed_.cluster; }
  TrafficBed& bed() { return bed_; }

  void check(int probes) {
    for (int i = 0; i < probes; ++i) check_one(any_probe());
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
  void check_one(const Probe& probe);
  std::set<Outcome> said(const inspect::PacketWalk& walk) const;
  std::string link_name(std::int32_t index) const;
  Outcome happened(const Probe& probe, const inspect::PacketWalk& walk, int wait);

  TrafficBed bed_;
  std::mt19937 random_;
  Host n2_;
  Sniffer node_sniffer_;
  std::map<const Netns*, Sniffer> sniffers_;
  std::vector<std::unique_ptr<EchoServer>> host_servers_;
  std::uint16_t source_port_ = 20'000;
  std::string heard_;  // what the sender of the last probe was told
};

std::string address_of(const char* v4, const char* v6, Family family, int number) {
  return (family == Family::ipv4 ? v4 : v6) + std::to_string(number);
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
         .ports = tcp_and_udp(node_port),
         .endpoints = endpoints_of(backends[static_cast<std::size_t>(i) % backends.size()]),
         .spec = spec,
         .ingress_ips = {address_of("192.0.2.", "", Family::ipv4, 10 + i),
                         address_of("", "2001:db8:2::", Family::ipv6, 10 + i)}});
  }
}

// Servers of n1: the pod port at its own addresses, a port at any address, one health check port.
void ExplainBed::serve() {
  const auto& node = bed_.cluster.node();
  host_servers_ = serve_on_host(bed_.cluster, {node.v4, node.v6}, kEchoPort);
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
      {.host = &n2_},
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
      {"no Service", ip(v4 ? "10.96.200.1" : "fd00:96::2001"), 80},
  };
  const auto aim = one_of(aims);
  probe.facet = aim.facet;
  probe.destination = aim.address;
  probe.port = aim.port;
}

bool is_bridge(const IpAddress& address) {
  return address == ip("10.244.0.1") || address == ip("fd00:244::1");
}

bool is_pod(const IpAddress& address) {
  const auto range = *netlink::IpPrefix::parse(address.family() == Family::ipv4 ? "10.244.0.0/16"
                                                                                : "fd00:244::/48");
  return range.contains(address) && !is_bridge(address);
}

// One whose packet comes to n1.
Probe ExplainBed::any_probe() {
  while (true) {
    const auto family = below(2) == 0 ? Family::ipv4 : Family::ipv6;
    Probe probe{.sender = any_sender(family),
                .protocol = below(2) == 0 ? Protocol::tcp : Protocol::udp};
    aim(probe, family);
    const auto& host = *probe.sender.host;
    if (is_pod(probe.destination)) {
      const auto& cluster = bed_.cluster;
      const bool on_n2 = probe.destination == cluster.remote(1).address(family) ||
                         probe.destination == cluster.remote(2).address(family);
      if (probe.sender.outside || (on_n2 && host.netns == n2_.netns)) continue;
      if (probe.destination == host.address(family)) continue;
    }
    if (probe.sender.outside && is_bridge(probe.destination)) continue;
    return probe;
  }
}

std::set<Outcome> ExplainBed::said(const inspect::PacketWalk& walk) const {
  std::set<Outcome> outcomes;
  const auto add = [&](const inspect::Arrival& arrival, const IpAddress& address,
                       std::uint16_t port) {
    switch (arrival.fate) {
      case inspect::Fate::served:
        outcomes.insert(seen_at(address, port, arrival.source));
        break;
      case inspect::Fate::delivered:
        outcomes.insert("host sees " + arrival.source.to_string());
        break;
      case inspect::Fate::forwarded:
        outcomes.insert("leaves by " + arrival.out_link + ": " +
                        seen_at(address, port, arrival.source));
        break;
      case inspect::Fate::refused:
        outcomes.insert("refused: " + std::string(to_string(arrival.notice)));
        break;
      case inspect::Fate::dropped:
        outcomes.insert("lost");
        break;
    }
  };
  if (walk.candidates.empty()) add(walk.arrival, walk.flow.destination, walk.flow.port);
  for (const auto& candidate : walk.candidates)
    add(candidate.arrival, candidate.server.key.address, candidate.server.key.port);
  return outcomes;
}

bool is_probe(const SeenPacket& packet, const Probe& probe, std::uint16_t source_port) {
  if (packet.protocol != static_cast<std::uint8_t>(probe.protocol)) return false;
  return probe.protocol == Protocol::tcp ? packet.opens : packet.destination_port != source_port;
}

std::string ExplainBed::link_name(std::int32_t index) const {
  return cluster().netns().inside([&] {
    std::array<char, IF_NAMESIZE> name{};
    return std::string(::if_indextoname(static_cast<unsigned>(index), name.data()));
  });
}

Outcome ExplainBed::happened(const Probe& probe, const inspect::PacketWalk& walk, int wait) {
  const auto& host = *probe.sender.host;
  node_sniffer_.take();
  for (auto& [_, sniffer] : sniffers_) sniffer.take();
  const auto port = source_port_++;
  const auto answer =
      host.ask(probe.protocol, probe.destination, probe.port,
               {.source = probe.sender.source, .source_port = port, .timeout_ms = wait});

  heard_ = test::outcome(answer);
  const auto at_node = node_sniffer_.take();
  std::map<const Netns*, std::vector<SeenPacket>> seen;
  for (auto& [netns, sniffer] : sniffers_) seen[netns] = sniffer.take();
  if (!probe.sender.on_node) {
    // The packet came to n1, through the link of which explain speaks.
    const bool came = std::ranges::any_of(at_node, [&](const SeenPacket& packet) {
      // What the bridge takes from one pod to another is seen on their ports alone.
      const auto link = link_name(packet.link);
      const bool in_link =
          link == walk.flow.in_link || (walk.flow.in_link == "cni0" && link.starts_with("local-"));
      return !packet.outgoing && is_probe(packet, probe, port) && packet.source_port == port &&
             packet.destination == probe.destination && in_link;
    });
    CHECK(came);
  }

  if (answer && answer->server == "host") return "host sees " + answer->client.to_string();
  for (const auto& [netns, packets] : seen)
    for (const auto& packet : packets)
      if (!packet.outgoing && is_probe(packet, probe, port) && is_pod(packet.destination)) {
        const auto at = seen_at(packet.destination, packet.destination_port, packet.source);
        // Whom the server sees is whom it tells of.
        if (answer) CHECK(answer->client == packet.source);
        return walk.arrival.fate == inspect::Fate::forwarded
                   ? "leaves by " + walk.arrival.out_link + ": " + at
                   : at;
      }
  const auto& around = probe.sender.on_node ? at_node : seen[host.netns];
  for (const auto& packet : around) {
    if (packet.outgoing) continue;
    if (packet.resets && packet.destination_port == port) return "refused: TCP reset";
    if (packet.port_unreachable) return "refused: ICMP port unreachable";
  }
  for (const auto& packet : at_node)
    if (packet.outgoing && is_probe(packet, probe, port) &&
        packet.destination == probe.destination && packet.destination_port == probe.port) {
      const auto name = link_name(packet.link);
      if (name == "lo") continue;
      return "leaves by " + name + ": " +
             seen_at(packet.destination, packet.destination_port, packet.source);
    }
  if (!answer && (answer.error().sys_errno == EINVAL || answer.error().sys_errno == ENETUNREACH))
    return "refused: the sender's call fails";
  return "lost";
}

void ExplainBed::check_one(const Probe& probe) {
  const auto& host = *probe.sender.host;
  const auto family = probe.destination.family();
  const inspect::Flow flow{
      .source = probe.sender.on_node ? probe.sender.source : std::optional(host.address(family)),
      .destination = probe.destination,
      .port = probe.port,
      .protocol = probe.protocol};
  INFO(probe.facet << ": " << host.name << " " << (flow.source ? flow.source->to_string() : "any")
                   << " -> " << netlink::to_string(probe.destination, probe.port) << "/"
                   << netlink::to_string(probe.protocol));
  const auto walk = bed_.cluster.netns().inside([&] {
    auto tables = require(cmd::open_node_tables());
    const auto node = require(cmd::read_node(tables, probe.destination));
    return require(inspect::walk_packet(flow, node, *tables.host));
  });
  const auto expected = said(walk);
  const bool quiet = std::ranges::all_of(expected, [](const Outcome& outcome) {
    return outcome == "lost" || outcome.starts_with("leaves by eth0");
  });
  const bool cautious = std::ranges::any_of(
      walk.candidates, [](const inspect::Candidate& one) { return !one.arrival.cautions.empty(); });
  const auto outcome = happened(probe, walk, quiet || cautious ? kShortWait : 5000);
  std::string steps;
  for (const auto& step : walk.steps)
    steps += fmt::format("{} {} {} [{}]\n", step.stage, step.chain, step.text, step.found);
  for (const auto& one : walk.candidates) {
    steps += " " + to_string(one.server.key) + "\n";
    for (const auto& step : one.steps)
      steps += fmt::format("  {} {} {} [{}]\n", step.stage, step.chain, step.text, step.found);
  }
  INFO("sender: " << heard_ << "\n" << steps);
  CHECK(expected == (expected.count(outcome) != 0 ? expected : std::set{outcome}));
  kinds.insert(outcome.substr(0, outcome.find(' ')));
}

// A few hundred packets; a run with another seed asks others.
TEST_CASE("kernel: explain says what packets do", "[explain]") {
  ExplainBed bed;
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
  // A host that lets in what it knows: of it ICMPv6, for finding neighbours, cannot be judged.
  bed.cluster().netns().inside([] {
    for (const char* program : {"iptables", "ip6tables"})
      shell(
          fmt::format("{0} -A INPUT -i lo -j ACCEPT && {0} -A INPUT -m conntrack --ctstate "
                      "RELATED,ESTABLISHED -j ACCEPT && {0} -A INPUT -p {1} -j ACCEPT && "
                      "{0} -P INPUT DROP && {0} -P FORWARD DROP",
                      program, std::string(program) == "iptables" ? "icmp" : "ipv6-icmp"));
  });
  bed.check(120);
  for (const char* kind : {"host", "leaves", "refused:", "lost"}) CHECK(bed.kinds.count(kind) == 1);
}

}  // namespace
}  // namespace ipvsproxier::test
