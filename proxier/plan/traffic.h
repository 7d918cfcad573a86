#pragma once

// ServiceTraffic: what the packet filter shall do with the traffic of one Service in one family,
// whichever packet filter does it. Each packet filter has a function that renders this value as its
// entries (iptables_filter.h), and decides nothing. A value; valid as long as the Service whose
// source ranges it refers to. Any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// The source address with which a client's packets reach an endpoint.
enum class ClientSource : std::uint8_t {
  kept,
  masqueraded,                // the node's address, so that answers come back through this node
  masqueraded_unless_by_pod,  // kept if the local detector tells that a pod of this node sent them
};

// The traffic to one virtual service.
struct VipTraffic {
  netlink::VirtualServiceKey key;
  Facet facet = Facet::cluster_ip;
  ClientSource source = ClientSource::kept;
  // Clients outside these ranges are dropped; empty: there is no restriction.
  std::span<const netlink::IpPrefix> source_ranges;
  // Whether this node itself is a client inside the ranges.
  bool ranges_hold_node = false;
  // Where packets of this node and its pods go instead: another virtual service, whose endpoints
  // are those of policy Cluster. Not for a cluster IP.
  std::optional<netlink::RealServerKey> in_cluster;
  // Packets of all others are dropped: endpoints are on other nodes alone.
  bool drops_outside = false;
  // It has an endpoint. Asked of node ports on localhost alone: no refusal finds its way back
  // there.
  bool is_served = true;
};

// An endpoint on this node that may reach itself through its Service: such packets are masqueraded.
struct HairpinEndpoint {
  netlink::Protocol protocol = netlink::Protocol::tcp;
  netlink::RealServerKey endpoint;
  bool is_node = false;  // its address is this node's: its packets are this node's
};

struct ServiceTraffic {
  std::vector<VipTraffic> vips;
  // Addresses of the Service: on all their other ports new connections are refused.
  std::vector<netlink::IpAddress> addresses;
  std::vector<HairpinEndpoint> hairpins;
  // TCP endpoints that are neither of this node nor pods that the local detector recognizes by
  // their source: the rules that drop invalid packets look them up.
  std::vector<netlink::IpAddress> other_endpoints;
  // Addresses of load balancers, which may send health checks there: the port of this program's
  // health server is open.
  std::vector<netlink::IpAddress> healthz;
  // Ports for health checks: open on all addresses, also on those of Services.
  std::vector<std::uint16_t> health_ports;
};

}  // namespace ipvsproxier::plan
