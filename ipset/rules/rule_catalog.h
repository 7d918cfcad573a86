#pragma once

// The fixed chains, jumps and rules of each family as table rows, and the few parameters that
// change them. Pure functions; any thread. Chain names, comments and order are kube-proxy's.
//
// nat:    PREROUTING, OUTPUT -> KUBE-SERVICES -> KUBE-LOAD-BALANCER, KUBE-NODE-PORT, both of which
//         may reach KUBE-MARK-MASQ;  POSTROUTING -> KUBE-POSTROUTING
// filter: INPUT -> KUBE-IPVS-FILTER, KUBE-PROXY-FIREWALL, KUBE-NODE-PORT;
//         FORWARD -> KUBE-PROXY-FIREWALL -> KUBE-SOURCE-RANGES-FIREWALL, KUBE-FORWARD;
//         OUTPUT -> KUBE-IPVS-OUT-FILTER

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "ipset/sets/set_catalog.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// A virtual service whose source ranges exclude this node: traffic from the node to it is dropped.
struct OutFilterEntry {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;

  friend auto operator<=>(const OutFilterEntry&, const OutFilterEntry&) = default;
};

// Traffic from the bridge of this name is local. As in iptables, a name that ends in '+' matches
// every interface whose name begins with the rest.
struct BridgeInterface {
  std::string name;
  friend auto operator<=>(const BridgeInterface&, const BridgeInterface&) = default;
};
// Traffic from an interface whose name begins with `prefix` is local.
struct InterfacePrefix {
  std::string prefix;
  friend auto operator<=>(const InterfacePrefix&, const InterfacePrefix&) = default;
};

// Packets that did not come in through this interface, or one whose name begins so; a '+' at the
// end of the name means the latter.
InInterfaceMatch not_through(std::string name, bool is_prefix);

// How traffic of this node's pods is recognized: not at all, by source prefix, or by interface. A
// source prefix of the other family counts as no detector.
using LocalDetector =
    std::variant<std::monostate, netlink::IpPrefix, BridgeInterface, InterfacePrefix>;

// All parameters of the rules of one family.
struct RuleParameters {
  std::uint32_t masquerade_mark = 0x4000;  // one bit
  bool masquerade_all = false;
  LocalDetector detector;
  // Where the detector tells pods by source, maybe the pods of all nodes: the pods of this node,
  // which alone are clients within the cluster at node ports; nullopt: unknown, so none is.
  std::optional<netlink::IpPrefix> own_pods;
  bool vip_ping = true;  // echo requests to virtual service addresses are answered
  // Whether packets of this node to a virtual service have the service's address as source, as they
  // do when that address is on a link. If false, any source address of this node marks a packet as
  // sent by the node.
  bool vips_are_sources = true;
  // Only iptables: packets of known connections leave KUBE-IPVS-FILTER at the first rule, and
  // packets that IPVS sends on leave KUBE-IPVS-OUT-FILTER, which others' Services make long.
  bool short_paths = false;
  // TCP packets of pods and endpoints that belong to no connection that conntrack knows, or lie
  // outside its window, are dropped. Nothing translates their addresses, so that the reset with
  // which the node or a client answers them would end the connection.
  bool drop_invalid = false;
  // The TCP port of this program's health server, which is open at the addresses of the set
  // healthz.
  std::uint16_t healthz_port = 0;
  // Only nf_tables: node ports are on localhost (localhost_rules.h).
  bool localhost = false;
  // Only nf_tables: no other program's chain changes the destination of a packet to a virtual
  // service. False while kube-proxy's rules translate destinations and IPVS does not serve yet.
  bool keep_destinations = true;
  // Only nf_tables: connections of virtual services are kept out of flowtables.
  bool unaccelerated = false;
  // Sets that have elements.
  std::set<SetId> non_empty;
  // Only iptables. Entries of the other family are ignored.
  std::set<OutFilterEntry> out_filter;

  friend bool operator==(const RuleParameters&, const RuleParameters&) = default;
};

// The parameters that a cluster has whose Services have cluster IPs alone.
RuleParameters least_parameters();

// Our rules in the tables filter and nat, in this order. Inserting the jumps in the given order,
// each at position 1, gives kube-proxy's order in an empty table.
std::vector<TableRules> rules_for(netlink::Family family, const RuleParameters& parameters);

// Whether this program wrote our chains of the legacy table filter, as it does without
// --kube-proxy-compat; else they are kube-proxy's, or as kube-proxy's, or absent.
bool has_short_paths(const WholeTable& filter);

}  // namespace ipvsproxier::ipset
