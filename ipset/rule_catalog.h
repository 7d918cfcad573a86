#pragma once

// The fixed chains, jumps and rules of each family, as rows, and the few parameters that change
// them. Pure functions; any thread. Chain names, texts and order are kube-proxy's.
//
// nat:    PREROUTING, OUTPUT -> KUBE-SERVICES -> KUBE-LOAD-BALANCER, KUBE-NODE-PORT,
//         all of which may reach KUBE-MARK-MASQ;  POSTROUTING -> KUBE-POSTROUTING
// filter: INPUT -> KUBE-IPVS-FILTER, KUBE-PROXY-FIREWALL, KUBE-NODE-PORT;
//         FORWARD -> KUBE-PROXY-FIREWALL -> KUBE-SOURCE-RANGES-FIREWALL, KUBE-FORWARD;
//         OUTPUT -> KUBE-IPVS-OUT-FILTER

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ipset/rule_types.h"
#include "ipset/set_catalog.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// A virtual service whose source ranges do not cover this node: the node itself is kept out.
struct OutFilterEntry {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;

  friend auto operator<=>(const OutFilterEntry&, const OutFilterEntry&) = default;
};

// Traffic that comes in through the bridge of this name is local. As for iptables itself, a name
// that ends in '+' stands for every interface whose name begins so.
struct BridgeInterface {
  std::string name;
  friend auto operator<=>(const BridgeInterface&, const BridgeInterface&) = default;
};
// Traffic that comes in through an interface whose name begins so is local.
struct InterfacePrefix {
  std::string prefix;
  friend auto operator<=>(const InterfacePrefix&, const InterfacePrefix&) = default;
};

// How traffic from this node's pods is told from other traffic: not at all, by its source, or by
// the interface. A source prefix of the other family is no detector.
using LocalDetector =
    std::variant<std::monostate, netlink::IpPrefix, BridgeInterface, InterfacePrefix>;

// All that the rules of one family depend on.
struct RuleParameters {
  std::uint32_t masquerade_mark = 0x4000;  // one bit
  bool masquerade_all = false;
  LocalDetector detector;
  bool vip_ping = true;  // echo requests to virtual service addresses are answered
  // What this node sends to a virtual service has its address for source, as where that is an
  // address of a link. Otherwise whatever has a source of this node counts as sent by it.
  bool vips_are_sources = true;
  std::set<SetId> non_empty;
  std::set<OutFilterEntry> out_filter;  // entries of the other family are ignored

  friend bool operator==(const RuleParameters&, const RuleParameters&) = default;
};

// Our part of the tables filter and nat, in this order. Inserting each jump at position 1 in the
// order given leaves a clean table with kube-proxy's order.
std::vector<TableRules> rules_for(netlink::Family family, const RuleParameters& parameters);

}  // namespace ipvsproxier::ipset
