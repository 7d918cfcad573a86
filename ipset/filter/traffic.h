#pragma once

// What the packet filter does with the traffic of Services, as values that name no set, element or
// rule. The planner makes them; each packet filter renders them (rendered.h). Values; any thread.

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/ipvs/ipvs_types.h"

namespace ipvsproxier::ipset {

// The kind of address by which a virtual service exposes a service port.
// `in_cluster`: an address of this node's own (proxier/plan/in_cluster_address.h). `localhost`: one
// behind the loop by which node ports on localhost travel (rules/localhost_rules.h).
enum class Facet : std::uint8_t {
  cluster_ip,
  external_ip,
  load_balancer,
  node_port,
  in_cluster,
  localhost,
};

std::string_view to_string(Facet facet);

// Whether the number by which the facet exposes a port is the port's node port.
constexpr bool is_of_node_port(Facet facet) {
  return facet == Facet::node_port || facet == Facet::localhost;
}

// A set of facets: a port may have one address by several, for example where its externalIPs name
// its load-balancer IP.
class Facets {
 public:
  constexpr Facets() = default;
  // Implicit: one facet is a set, too.
  constexpr Facets(Facet facet) : bits_(bit(facet)) {}

  constexpr bool contains(Facet facet) const { return (bits_ & bit(facet)) != 0; }
  constexpr void insert(Facets others) { bits_ = static_cast<std::uint8_t>(bits_ | others.bits_); }
  friend constexpr auto operator<=>(const Facets&, const Facets&) = default;

 private:
  static constexpr std::uint8_t bit(Facet facet) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(facet));
  }

  std::uint8_t bits_ = 0;
};

// The source address with which a client's packets reach an endpoint.
enum class ClientSource : std::uint8_t {
  kept,
  masqueraded,                // the node's address, so that answers come back through this node
  masqueraded_unless_by_pod,  // kept if the local detector tells that a pod of this node sent them
};

// The traffic to one virtual service.
struct VipTraffic {
  Facets facets;
  // `kept` and `masqueraded` are for addresses outside the cluster, the third for cluster IPs. For
  // an address of both kinds it is the one that masquerades more.
  ClientSource source = ClientSource::kept;
  // Whether this node itself is a client inside the ranges.
  bool ranges_hold_node = false;
  // Packets of all clients that are not sent on are dropped: endpoints are on other nodes alone.
  bool drops_outside = false;
  // It has an endpoint. Only known of node ports on localhost: no refusal finds its way back there.
  bool is_served = true;
  // All of its address belongs to Services: it is bound on this node, and new connections to other
  // ports of it are refused.
  bool is_bound = true;
  // Clients outside these ranges are dropped; empty: there is no restriction.
  std::vector<netlink::IpPrefix> source_ranges;
  // Where packets of this node and its pods are sent on to: another virtual service, which
  // has the endpoints of policy Cluster. Not for a cluster IP.
  std::optional<netlink::RealServerKey> in_cluster;

  // Adds the traffic to the same virtual service by another facet of the same port: the source
  // ranges of either count, and what either masquerades is masqueraded.
  void join(const VipTraffic& other);

  friend auto operator<=>(const VipTraffic&, const VipTraffic&) = default;
};

// Traffic that is not of one virtual service. Several Services may ask for the same.
struct SharedTraffic {
  enum class Kind : std::uint8_t {
    // An address of a Service: new connections to its other ports are refused.
    vip,
    // A TCP endpoint that is neither of this node nor a pod that the local detector recognizes by
    // its source: the rules that drop invalid packets look it up.
    other_endpoint,
    // An endpoint of this node that may reach itself through its Service: it is masqueraded then.
    hairpin,
    // A load balancer may send health checks to this address: the port of this program's health
    // server is open there.
    health_address,
    // A port for health checks: open on all addresses, also on the addresses of Services.
    health_port,
  };

  Kind kind = Kind::vip;
  netlink::Protocol protocol = netlink::Protocol::tcp;  // only of a hairpin
  bool is_node = false;        // only of a hairpin: its address is one of this node
  std::uint16_t port = 0;      // only of a hairpin or a health port
  netlink::IpAddress address;  // of a health port: any address, of the family

  friend auto operator<=>(const SharedTraffic&, const SharedTraffic&) = default;
};

}  // namespace ipvsproxier::ipset
