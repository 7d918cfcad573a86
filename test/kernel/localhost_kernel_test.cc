// Node ports on localhost (nodePortAddresses: localhost): that they are served and what pods see,
// that nobody else gets in by the way, and that it is kept, and leaves nothing once it is off.
// What becomes of a packet is also what `ipvsctl explain` said before.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/explain_prober.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

constexpr std::uint16_t kEverywhere = 30080;  // of policy Cluster
constexpr std::uint16_t kHere = 30081;        // of policy Local
constexpr std::uint16_t kLasting = 30090;
constexpr std::uint16_t kNothing = 30082;  // without an endpoint

std::string configuration(const std::string& node_ports) {
  return fmt::format(
      "detectLocalMode: ClusterCIDR\nclusterCIDR: \"{}\"\nnodePortAddresses: [{}]\n"
      "ipvs: {{syncPeriod: 1s}}\n",
      kPodRanges, node_ports);
}

const IpAddress& localhost(Family family) {
  static const auto v4 = ip("127.0.0.1");
  static const auto v6 = ip("::1");
  return family == Family::ipv4 ? v4 : v6;
}
// Towards the loop, the other way, and behind it.
IpAddress of_loop(Family family, int number) {
  return ip((family == Family::ipv4 ? "169.254.107." : "fd69:7076:7301::") +
            std::to_string(number));
}

class LocalhostBed {
 public:
  explicit LocalhostBed(const std::string& node_ports = "primary, localhost")
      : bed_({.local_pods = 3, .remote_pods = 2, .sctp = true}) {
    // Strict, as most distributions have it.
    in_node("for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $f; done");
    configure(node_ports);
    const auto endpoints = endpoints_of({&bed_.cluster.local(1), &bed_.cluster.remote(1)});
    put("everywhere", "10.96.0.30", "fd00:96::30", kEverywhere, "", endpoints);
    put("here", "10.96.0.31", "fd00:96::31", kHere, "externalTrafficPolicy: Local", endpoints);
    put("nothing", "10.96.0.33", "fd00:96::33", kNothing, "", {});
    bed_.manifests.put(
        {.name = "lasting",
         .type = "NodePort",
         .cluster_ips = {"10.96.0.32", "fd00:96::32"},
         .ports = {{.name = "stream", .port = 90, .target = kStreamPort, .node_port = kLasting}},
         .endpoints = endpoints_of({&bed_.cluster.local(1)})});
  }

  void configure(const std::string& node_ports) {
    bed_.manifests.configure(configuration(node_ports));
  }
  TrafficBed& bed() { return bed_; }
  const Cluster& cluster() const { return bed_.cluster; }
  std::string in_node(const std::string& command) const {
    return cluster().netns().inside([&] { return shell(command); });
  }
  Outcome ask(Protocol protocol, Family family, std::uint16_t port) {
    if (!prober_) prober_.emplace(cluster());
    return prober_->check({.sender = {.host = &cluster().node(), .on_node = true},
                           .protocol = protocol,
                           .destination = localhost(family),
                           .port = port,
                           .facet = "node port on localhost"});
  }
  bool answers(Family family, std::uint16_t port = kEverywhere, int wait = 1000) const {
    return cluster()
        .node()
        .ask(Protocol::tcp, localhost(family), port,
             {.source = {}, .source_port = 0, .timeout_ms = wait})
        .has_value();
  }
  // The pods and the addresses that they see, if all of them may serve.
  std::set<Outcome> served_by(Family family, bool elsewhere) const {
    const auto seen = [&](const Pod& pod, const IpAddress& source) {
      return netlink::to_string(pod.address(family), kEchoPort) + " sees " + source.to_string();
    };
    std::set<Outcome> all{
        seen(cluster().local(1), ip(family == Family::ipv4 ? "10.244.0.1" : "fd00:244::1"))};
    if (elsewhere) all.insert(seen(cluster().remote(1), cluster().node().address(family)));
    return all;
  }
  // All of it in the kernel, in any tool's words.
  std::string traces() const {
    std::string command =
        "{ ip -o link; ip -o addr; ip route show table all; ip -6 route show table all; "
        "ipvsadm-save -n; ";
    command += on_nftables() ? "nft list ruleset; " : "iptables-save; ip6tables-save; ipset save; ";
    command +=
        "} 2>/dev/null | grep -E 'kube-local|169\\.254\\.107\\.|fd69:7076:7301|"
        "local ::1 dev kube|LOCALHOST|map localhost|127\\.0\\.0\\.1,' | grep -v 'elements' || true";
    return in_node(command);
  }

 private:
  void put(const std::string& name, const std::string& v4, const std::string& v6,
           std::uint16_t node_port, const std::string& spec,
           const std::vector<EndpointManifest>& endpoints) {
    std::vector<PortManifest> ports;
    for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp})
      ports.push_back({.name = std::string(netlink::to_lower_string(protocol)),
                       .protocol = protocol,
                       .port = 80,
                       .node_port = node_port});
    bed_.manifests.put({.name = name,
                        .type = "NodePort",
                        .cluster_ips = {v4, v6},
                        .ports = ports,
                        .endpoints = endpoints,
                        .spec = spec});
  }

  TrafficBed bed_;
  std::optional<Prober> prober_;
};

TEST_CASE("kernel: node ports on localhost are served, as explain says, and masqueraded",
          "[few][localhost]") {
  LocalhostBed bed;
  const bool within = GENERATE(false, true);
  bed.bed().program({fmt::format("--in-cluster-clients={}", within)});
  for (const auto family : netlink::kFamilies)
    for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp}) {
      // A part of it each day.
      if (within && protocol == Protocol::sctp) continue;
      for (int i = 0; i < 2; ++i) {
        const auto outcome = bed.ask(protocol, family, kEverywhere);
        CHECK(bed.served_by(family, true).contains(outcome));
      }
      const auto outcome = bed.ask(protocol, family, kHere);
      CHECK(bed.served_by(family, within).contains(outcome));
    }
  // What is no node port stays the host's.
  CHECK(bed.ask(Protocol::tcp, Family::ipv4, 30099).starts_with("refused"));
  // Nor does a client wait where nothing serves.
  for (const auto family : netlink::kFamilies)
    for (const auto protocol : {Protocol::tcp, Protocol::udp})
      CHECK(bed.ask(protocol, family, kNothing).starts_with("refused"));
}

// The outcomes of asking n1 for an address and port from a host whose namespace has a way there.
std::string reached(const Host& from, const IpAddress& to, std::uint16_t port, Protocol protocol,
                    std::optional<IpAddress> source = std::nullopt) {
  constexpr int kWait = 100;
  const auto answer =
      from.ask(protocol, to, port, {.source = source, .source_port = 0, .timeout_ms = kWait});
  return answer ? "served" : "not";
}

TEST_CASE("kernel: the way of node ports on localhost is this node's alone", "[few][localhost]") {
  LocalhostBed bed;
  bed.bed().program();
  const auto& cluster = bed.cluster();
  const Host n2{"n2", cluster.remote(1).netns, ip("10.200.0.3"), ip("fd00:200::3")};
  // A neighbour on the node's network that sends what it likes, by way of the node.
  n2.netns->inside([] {
    shell(
        "ip route add 169.254.107.0/24 via 10.200.0.2; "
        "ip -6 route add fd69:7076:7301::/64 via fd00:200::2; "
        "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet; "
        "ip route del local 127.0.0.1 table local; ip route del local 127.0.0.0/8 table local; "
        "ip route add 127.0.0.0/8 via 10.200.0.2; "
        "ip addr add 127.0.0.9/32 dev lo");
  });
  const bool strict = GENERATE(true, false);
  if (!strict) bed.in_node("for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done");
  const auto before = bed.in_node("awk '$1 == \"kube-local1:\" {print $3}' /proc/net/dev");
  for (const Host* from : {&n2, static_cast<const Host*>(&cluster.local(2))})
    for (const auto protocol : {Protocol::tcp, Protocol::udp}) {
      // Of TCP only the first packet matters.
      if (strict && protocol == Protocol::tcp) continue;
      INFO(from->name << " " << netlink::to_string(protocol) << (strict ? " strict" : ""));
      // The test can fail: the node port itself is there.
      CHECK(reached(*from, cluster.node().v4, kEverywhere, protocol) == "served");
      for (const auto family : netlink::kFamilies)
        for (const int number : {1, 2, 3})
          CHECK(reached(*from, of_loop(family, number), kEverywhere, protocol) == "not");
      if (from != &n2) continue;
      // Packets to a loopback address, and from one.
      CHECK(reached(n2, ip("127.0.0.1"), kEverywhere, protocol, n2.v4) == "not");
      for (const auto& to :
           {ip("127.0.0.1"), cluster.node().v4, of_loop(Family::ipv4, 1), of_loop(Family::ipv4, 3)})
        CHECK(reached(n2, to, kEverywhere, protocol, ip("127.0.0.9")) == "not");
    }
  // Nor do packets go around: what came to the second link is no more than was asked for.
  const auto after = bed.in_node("awk '$1 == \"kube-local1:\" {print $3}' /proc/net/dev");
  CHECK(std::stoi(after) - std::stoi(before) < 200);
  CHECK(bed.answers(Family::ipv4));
}

struct Broken {
  const char* command;
  bool at_once;  // the kernel tells of it
};

TEST_CASE("kernel: node ports on localhost come back after damage, and connections last",
          "[few][localhost]") {
  LocalhostBed bed;
  bed.configure("primary, localhost");
  const auto& cluster = bed.cluster();
  Daemon daemon(cluster.netns(), bed.bed().manifests.flags());
  daemon.start();
  const bool began = daemon.logs("synced: ");
  INFO(daemon.log());
  REQUIRE(began);
  auto lasting = cluster.node().open_stream(localhost(Family::ipv4), kLasting);
  REQUIRE(lasting);
  const auto live = bed.in_node(ipvsctl_word() + " explain --live node 127.0.0.1:30090 2>&1");
  INFO(live);
  // Twice by connection tracking, and at IPVS between.
  CHECK(live.find(" -> 127.0.0.1:30090, answered 169.254.107.1:30090 -> ") != std::string::npos);
  CHECK(live.find("  conntrack  TCP 169.254.107.2:") != std::string::npos);
  CHECK(live.find("  IPVS       TCP 169.254.107.2:") != std::string::npos);
  CHECK(live.find(" -> 169.254.107.3:30090 -> ") != std::string::npos);
  for (const auto* command : {"ip route del 169.254.107.1", "ip route del 169.254.107.2",
                              "ip -6 route del local ::1 dev kube-local0 table local",
                              "echo 0 > /proc/sys/net/ipv4/conf/kube-local0/route_localnet",
                              "ip link set kube-local1 down", "ip link del kube-local0"}) {
    INFO(command);
    daemon.mark();
    bed.in_node(command);
    CHECK(daemon.logs("others removed or changed "));
    for (const auto family : netlink::kFamilies)
      CHECK(eventually([&] { return bed.answers(family); }));
  }
  INFO(daemon.log());
  CHECK(lasting->exchange());
  // Neither a kill nor an orderly end, nor the next start, disturbs it.
  daemon.kill();
  CHECK(lasting->exchange());
  bed.in_node("ip route del 169.254.107.1");
  daemon.mark();
  daemon.start();
  CHECK(daemon.logs("synced: "));
  CHECK(bed.in_node("ip route show 169.254.107.1").find("kube-local0") != std::string::npos);
  CHECK(lasting->exchange());
  CHECK(bed.answers(Family::ipv6));
  CHECK(daemon.terminate() == 0);
  CHECK(lasting->exchange());
}

TEST_CASE("kernel: node ports on localhost leave nothing", "[few][localhost]") {
  LocalhostBed bed("primary");
  const auto& cluster = bed.cluster();
  bed.bed().program();
  const auto without = bed.traces();
  CHECK(without.empty());
  CHECK_FALSE(bed.answers(Family::ipv4));

  bed.configure("localhost");
  bed.bed().program();
  CHECK(bed.answers(Family::ipv4));
  CHECK(bed.answers(Family::ipv6));
  CHECK_FALSE(bed.traces().empty());
  // Nowhere else.
  CHECK(reached(cluster.client(), cluster.node().v4, kEverywhere, Protocol::tcp) == "not");

  SECTION("turned off") {
    bed.configure("primary");
    bed.bed().program();
    CHECK(bed.traces() == without);
    CHECK_FALSE(bed.answers(Family::ipv4));
    CHECK(reached(cluster.client(), cluster.node().v4, kEverywhere, Protocol::tcp) == "served");
  }
  SECTION("cleaned up") {
    bed.in_node(ipvs_proxier_word() + " --cleanup");
    CHECK(bed.traces().empty());
  }
  SECTION("another's link in the way") {
    const std::string kind = GENERATE("dummy", "veth");
    bed.in_node("ip link del kube-local0; ip link add kube-local1 type " + kind +
                (kind == "veth" ? " peer name kube-local0" : ""));
    bed.configure("primary, localhost");
    const auto run = run_once(cluster.netns(), bed.bed().manifests);
    INFO(run.log);
    CHECK(run.log.find("a link kube-local" + std::string(kind == "veth" ? "0" : "1") +
                       " exists and is not ours") != std::string::npos);
    CHECK_FALSE(bed.answers(Family::ipv4, kEverywhere, kShortWait));
    CHECK(reached(cluster.client(), cluster.node().v4, kEverywhere, Protocol::tcp) == "served");
    bed.configure("primary");
    bed.bed().program();
    bed.in_node(ipvs_proxier_word() + " --cleanup");
    CHECK(bed.in_node("ip -o -d link show kube-local1").find(kind) != std::string::npos);
  }
}

}  // namespace
}  // namespace ipvsproxier::test
