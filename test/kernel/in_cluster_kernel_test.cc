// Services of external policy Local, asked from within the cluster and from outside: who answers,
// and which source address he sees. Every answer is also what `ipvsctl explain` said before.

#include <array>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/explain_prober.h"
#include "test/kernel/one_service_bed.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

constexpr std::array kAllProtocols = {Protocol::tcp, Protocol::udp, Protocol::sctp};

// Where the endpoints of a Service are. `ending_here`: ready ones elsewhere, and one here that ends
// and still serves.
enum class Where : std::uint8_t { here_and_elsewhere, elsewhere, nowhere, ending_here };
constexpr std::array kWheres = {Where::here_and_elsewhere, Where::elsewhere, Where::nowhere,
                                Where::ending_here};
constexpr std::array<const char*, kWheres.size()> kWhereNames = {
    "here and elsewhere", "elsewhere", "nowhere", "elsewhere, ending here"};

// `in_ranges`: a client outside, within the source ranges of the Service. The Services of the
// others have none.
enum class From : std::uint8_t { node, local_pod, remote_pod, outside, in_ranges };
constexpr std::array kFroms = {From::node, From::local_pod, From::remote_pod, From::outside,
                               From::in_ranges};

struct Cell {
  From from = From::node;
  By by = By::load_balancer;
  Where where = Where::nowhere;
  Protocol protocol = Protocol::tcp;
  Family family = Family::ipv4;
};

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const auto family : netlink::kFamilies)
    for (const auto from : kFroms)
      for (const auto by : kBys)
        for (const auto where : kWheres)
          for (const auto protocol : kAllProtocols)
            cells.push_back({from, by, where, protocol, family});
  return cells;
}

std::string v4_or_v6(Family family, const char* v4, const char* v6, int number) {
  return (family == Family::ipv4 ? v4 : v6) + std::to_string(number);
}
int number_of(Where where, bool has_ranges) {
  return (has_ranges ? 20 : 10) + static_cast<int>(where);
}

// endpoints_of(), but they end and still serve.
std::vector<EndpointManifest> ending(const Pod& pod) {
  auto endpoints = endpoints_of({&pod});
  for (auto& one : endpoints) one.conditions = "ready: false, serving: true, terminating: true";
  return endpoints;
}

std::vector<EndpointManifest> endpoints_at(const Cluster& cluster, Where where) {
  std::vector<EndpointManifest> endpoints;
  if (where == Where::here_and_elsewhere) endpoints = endpoints_of({&cluster.local(1)});
  if (where == Where::ending_here) endpoints = ending(cluster.local(1));
  if (where != Where::nowhere)
    for (const auto& one : endpoints_of({&cluster.remote(1)})) endpoints.push_back(one);
  return endpoints;
}

class LocalPolicyBed {
 public:
  LocalPolicyBed()
      : bed_({.local_pods = 3, .remote_pods = 2, .sctp = true}), prober_(bed_.cluster) {
    for (const auto where : kWheres)
      for (const bool has_ranges : {false, true}) put_service(where, has_ranges);
    bed_.program();
  }

  void check(const Cell& cell) {
    INFO("endpoints " << kWhereNames.at(static_cast<std::size_t>(cell.where)));
    const auto outcome = prober_.check(probe_of(cell));
    // A pod of another node asks for such addresses there.
    if (cell.from == From::remote_pod && cell.by != By::node_port) return;
    const auto wanted = wanted_in(cell);
    CHECK(wanted == (wanted.contains(outcome) ? wanted : std::set{outcome}));
  }

 private:
  void put_service(Where where, bool has_ranges) {
    const auto number = number_of(where, has_ranges);
    std::vector<PortManifest> ports;
    for (const auto protocol : kAllProtocols)
      ports.push_back({.name = std::string(netlink::to_lower_string(protocol)),
                       .protocol = protocol,
                       .port = 80,
                       .node_port = static_cast<std::uint16_t>(30000 + number)});
    const auto both = [&](const char* v4, const char* v6) {
      return std::vector{v4_or_v6(Family::ipv4, v4, v6, number),
                         v4_or_v6(Family::ipv6, v4, v6, number)};
    };
    const auto external = both("192.0.2.1", "2001:db8:2::1");
    bed_.manifests.put({.name = "s" + std::to_string(number),
                        .type = "LoadBalancer",
                        .cluster_ips = both("10.96.0.", "fd00:96::"),
                        .ports = ports,
                        .endpoints = endpoints_at(bed_.cluster, where),
                        .spec = fmt::format("externalTrafficPolicy: Local, externalIPs: [{}, "
                                            "\"{}\"]{}",
                                            external[0], external[1], has_ranges ? kRanges : ""),
                        .ingress_ips = both("192.0.2.", "2001:db8:2::")});
  }

  Probe probe_of(const Cell& cell) const {
    const auto& cluster = bed_.cluster;
    const auto number = number_of(cell.where, cell.from == From::in_ranges);
    Probe probe{.protocol = cell.protocol, .port = 80};
    switch (cell.by) {
      case By::load_balancer:
        probe.facet = "load balancer";
        probe.destination = ip(v4_or_v6(cell.family, "192.0.2.", "2001:db8:2::", number));
        break;
      case By::external_ip:
        probe.facet = "external IP";
        probe.destination = ip(v4_or_v6(cell.family, "192.0.2.1", "2001:db8:2::1", number));
        break;
      case By::node_port:
        probe.facet = "node port";
        probe.destination = cluster.node().address(cell.family);
        probe.port = static_cast<std::uint16_t>(30000 + number);
        break;
    }
    switch (cell.from) {
      case From::node:
        probe.sender = {.host = &cluster.node(), .on_node = true};
        break;
      case From::local_pod:
        probe.sender = {.host = &cluster.local(2)};
        break;
      case From::remote_pod:
        probe.sender = {.host = &cluster.remote(2)};
        break;
      case From::outside:
      case From::in_ranges:
        probe.sender = {.host = &cluster.client(), .outside = true};
        break;
    }
    return probe;
  }

  // The table of docs/differences.md.
  std::set<Outcome> wanted_in(const Cell& cell) const {
    const auto& cluster = bed_.cluster;
    const auto seen_at = [&](const Pod& pod, const IpAddress& source) {
      return netlink::to_string(pod.address(cell.family), kEchoPort) + " sees " +
             source.to_string();
    };
    if (cell.where == Where::nowhere) return {"refused: ICMP port unreachable"};
    const bool here = cell.where == Where::here_and_elsewhere;
    if (cell.from == From::outside || cell.from == From::in_ranges ||
        cell.from == From::remote_pod) {
      if (cell.where == Where::elsewhere) return {"lost"};
      const Host& from = cell.from == From::remote_pod ? cluster.remote(2) : cluster.client();
      return {seen_at(cluster.local(1), from.address(cell.family))};
    }
    std::set<Outcome> wanted;
    const bool keeps = cell.from == From::local_pod;
    const auto own = cluster.local(2).address(cell.family);
    const auto bridge = ip(cell.family == Family::ipv4 ? "10.244.0.1" : "fd00:244::1");
    if (here) wanted.insert(seen_at(cluster.local(1), keeps ? own : bridge));
    wanted.insert(seen_at(cluster.remote(1), keeps ? own : cluster.node().address(cell.family)));
    return wanted;
  }

  static constexpr const char* kRanges =
      ", loadBalancerSourceRanges: [203.0.113.0/24, \"2001:db8:7::/64\"]";

  TrafficBed bed_;
  Prober prober_;
};

std::vector<EndpointManifest> here_and_elsewhere(const Cluster& cluster) {
  return endpoints_of({&cluster.local(1), &cluster.remote(1), &cluster.remote(2)});
}

TEST_CASE("kernel: source ranges of policy Local bind the node and its pods, at load balancers",
          "[.local_policy]") {
  const bool holds_node = GENERATE(false, true);
  OneServiceBed bed(here_and_elsewhere,
                    std::string(", loadBalancerSourceRanges: [203.0.113.0/24, 10.244.0.13/32, ") +
                        "\"2001:db8:7::/64\", \"fd00:244::13/128\"" +
                        (holds_node ? ", 10.200.0.0/24, \"fd00:200::/64\"" : "") + "]");
  const auto& cluster = bed.cluster();
  for (const auto family : netlink::kFamilies) {
    CHECK(bed.kind(cluster.client(), By::load_balancer, family) == "served");
    CHECK(bed.kind(cluster.stranger(), By::load_balancer, family) == "lost");
    CHECK(bed.kind(cluster.local(3), By::load_balancer, family) == "served");
    CHECK(bed.kind(cluster.local(2), By::load_balancer, family) == "lost");
    CHECK(bed.kind(cluster.node(), By::load_balancer, family) == (holds_node ? "served" : "lost"));
    for (const auto by : {By::external_ip, By::node_port})
      for (const Host* from :
           {&cluster.stranger(), static_cast<const Host*>(&cluster.local(2)), &cluster.node()})
        CHECK(bed.kind(*from, by, family) == "served");
  }
}

TEST_CASE("kernel: a pod of policy Local reaches itself, and affinity holds", "[.local_policy]") {
  SECTION("itself") {
    OneServiceBed bed([](const Cluster& all) { return endpoints_of({&all.local(1)}); });
    for (const auto by : kBys)
      for (const auto family : netlink::kFamilies)
        CHECK(bed.ask(bed.cluster().local(1), by, family) ==
              netlink::to_string(bed.cluster().local(1).address(family), kEchoPort) + " sees " +
                  (family == Family::ipv4 ? "10.244.0.1" : "fd00:244::1"));
  }
  SECTION("affinity") {
    OneServiceBed bed(here_and_elsewhere, ", sessionAffinity: ClientIP");
    for (const auto family : netlink::kFamilies) {
      std::set<Outcome> answers;
      for (int i = 0; i < 6; ++i)
        answers.insert(bed.ask(bed.cluster().local(2),
                               i % 2 == 0 ? By::load_balancer : By::node_port, family));
      CHECK(answers.size() == 1);
    }
  }
}

// As in kube-proxy's iptables mode. The node is known by its addresses.
TEST_CASE("kernel: where there is no detector pods of policy Local are clients outside", "[.few]") {
  const bool here = GENERATE(false, true);
  OneServiceBed bed([&](const Cluster& all) {
    return endpoints_at(all, here ? Where::here_and_elsewhere : Where::elsewhere);
  });
  bed.configure("detectLocalMode: ClusterCIDR\n");
  const auto& cluster = bed.cluster();
  for (const auto family : netlink::kFamilies) {
    const auto pod = cluster.local(2).address(family).to_string();
    const auto local = netlink::to_string(cluster.local(1).address(family), kEchoPort) + " sees ";
    for (const auto by : kBys) {
      CHECK(bed.ask(cluster.local(2), by, family) == (here ? local + pod : "lost"));
      CHECK(bed.kind(cluster.node(), by, family) == "served");
    }
  }
}

TEST_CASE("kernel: policy Local is for clients outside, some", "[.few]") {
  LocalPolicyBed bed;
  const auto cells = all_cells();
  for (auto i = Catch::rngSeed() % 11; i < cells.size(); i += 11) bed.check(cells[i]);
}

TEST_CASE("kernel: policy Local is for clients outside", "[.local_policy]") {
  LocalPolicyBed bed;
  for (const auto& cell : all_cells()) bed.check(cell);
}

}  // namespace
}  // namespace ipvsproxier::test
