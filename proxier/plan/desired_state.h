#pragma once

// DesiredState: the state that the kernel should have, as a value in the same shape as ActualState
// (actual_state.h). Ordered, so that differences are sorted merges and texts are stable. Any
// thread.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ipset/filter/traffic.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/element_set.h"
#include "ipset/sets/set_catalog.h"
#include "netlink/containers/sorted_chunks.h"
#include "netlink/containers/sorted_vector.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/bindings.h"

namespace ipvsproxier::plan {

using ipset::Facet;
using ipset::SetKey;
using ipset::SharedTraffic;
using ipset::VipTraffic;
using netlink::SortedVector;

struct PlannedService {
  netlink::VirtualService service;
  Facet facet = Facet::cluster_ip;  // the last one, if the port has the address by several
  bool first = false;  // programmed before the others: the API server and the cluster DNS
  SortedVector<netlink::RealServerKey> servers;  // masqueraded
  std::vector<std::uint32_t> weights;            // of `servers`, in their order; empty: each 1
  std::uint32_t upper_threshold = 0;             // of each real server; 0: none
  std::uint32_t lower_threshold = 0;
  // Milliseconds, in place of the node's; 0: until the last connection ends.
  std::optional<std::int64_t> drain_timeout;
  VipTraffic traffic;  // what the packet filter does with its packets

  // The real server at this place of `servers`.
  netlink::RealServer server(std::size_t index) const;

  friend auto operator<=>(const PlannedService&, const PlannedService&) = default;
};

// Entries that the kernel held before planning and that no readable object asks for, but that may
// belong to an object that cannot be read. They are kept.
struct Leftovers {
  std::set<netlink::VirtualServiceKey> services;  // with all their real servers
  // Real servers of planned services.
  std::set<std::pair<netlink::VirtualServiceKey, netlink::RealServerKey>> servers;
  std::set<netlink::IpAddress> addresses;
  std::map<SetKey, ipset::ElementSet> elements;

  bool empty() const {
    return services.empty() && servers.empty() && addresses.empty() && elements.empty();
  }
  friend bool operator==(const Leftovers&, const Leftovers&) = default;
};

struct DesiredState {
  std::map<netlink::VirtualServiceKey, PlannedService> services;
  AddressSet addresses;                                               // bound on this node
  ipset::PacketFilter packet_filter = ipset::PacketFilter::iptables;  // whose sets and rules
  std::map<SetKey, ipset::ElementSet> sets;                // all sets of each planned family
  std::map<netlink::Family, ipset::RuleParameters> rules;  // one entry for each planned family
  // All objects could be read: entries that are absent here are removed. If false, nothing is
  // removed, but for what diff.h says.
  bool complete = true;
  Leftovers leftovers;                // not removed either
  bool growing_sets = true;           // sets may grow beyond kube-proxy's maxelem
  Places places = Places::all_links;  // where `addresses` are bound
  // Real servers of SCTP that are absent here stay until their associations end, as those of TCP.
  bool drain_sctp = false;
  // Virtual services that are absent here stay until their connections end, if connections of their
  // protocol drain().
  bool drain_deleted_services = false;
  // Virtual services in these ranges are not ours (excludeCIDRs).
  std::vector<netlink::IpPrefix> excluded;
  // Which of the other virtual services of a planned family are ours, ownership.h says. If false,
  // all are, whoever made them, as in kube-proxy.
  bool keep_foreign_services = true;
  // Addresses at which virtual services are a predecessor's: ours (other_programs.h).
  std::set<netlink::IpAddress> inherited;

  friend bool operator==(const DesiredState&, const DesiredState&) = default;
};

// Whether a real server of this protocol that leaves has weight 0 until its connections end; else
// it is removed at once.
inline bool drains(const DesiredState& desired, netlink::Protocol protocol) {
  return protocol == netlink::Protocol::tcp ||
         (protocol == netlink::Protocol::sctp && desired.drain_sctp);
}

// One line for each entry, sorted: virtual services with their servers, addresses, elements, rules.
std::string to_text(const DesiredState& state);

}  // namespace ipvsproxier::plan
