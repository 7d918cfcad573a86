#pragma once

// Whether a base chain of somebody else in nf_tables lets a packet pass. An accept ends one base
// chain only: the packet goes on to the hook's other base chains, and each of them can still drop
// it. So no rule of ours helps where such a chain drops. Pure; any thread.
//
// The judge knows addresses, ports, protocol and connection state of the packet. What else a rule
// asks for (marks, names of links, limits, matches of iptables) may be so or not.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ipset/nft/look_budget.h"
#include "ipset/nftables/filter_table.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// nullopt: any.
struct FirewallPacket {
  netlink::Family family = netlink::Family::ipv4;
  std::optional<netlink::IpAddress> source;
  std::optional<netlink::IpAddress> destination;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::optional<std::uint16_t> source_port;
  std::optional<std::uint16_t> destination_port;
  bool is_new = true;          // else of an established connection
  bool from_elsewhere = true;  // it did not come over the link lo; none goes out there
  bool to_here = false;        // its destination is an address of this node
  bool of_ipvs = false;        // IPVS sends it
  // That connection tracking saw first.
  std::optional<netlink::IpAddress> first_destination = {};
  std::optional<std::uint16_t> first_destination_port = {};
};

enum class FirewallFate : std::uint8_t { passes, may_drop, drops };
// Whether a chain of type nat gives a packet another destination.
enum class FirewallTranslation : std::uint8_t { none, possible, certain };

// What stands in the table of the chain; nullptr: it is not there, or could not be read.
struct FirewallTable {
  std::function<const std::vector<FilterRule>*(const std::string& chain)> rules;
  std::function<const FilterSet*(const std::string& set)> set;
};

// Where the budget is spent at the end, the packet was not judged and the answer means nothing.
FirewallFate fate_in(const FirewallTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget);
FirewallTranslation translation_in(const FirewallTable& table, const std::string& chain,
                                   const FirewallPacket& packet, LookBudget& budget);

}  // namespace ipvsproxier::ipset
