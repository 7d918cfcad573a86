#pragma once

// Chains of legacy iptables that find a destination address, protocol and port among many, and
// translate it: what one map does with nf_tables. Each test halves what is left, so that a packet
// meets a number of rules that grows with the logarithm of the number of addresses. Pure; any
// thread.
//
// A test is "-d PREFIX -j CHAIN" with the prefix whose share of what is left is nearest to one half
// (one to two thirds, unless one address has more); among the ports of one address it is "-d
// ADDRESS -p tcp -m tcp --dport FIRST:LAST -j CHAIN". What does not match meets the next test of
// the same chain. The name of a chain follows from its test alone, so a change of one address
// leaves most chains as they are.

#include <compare>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// Packets to an address and port go to another one instead.
struct InClusterEntry {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;
  netlink::IpAddress to;
  std::uint16_t to_port = 0;

  friend auto operator<=>(const InClusterEntry&, const InClusterEntry&) = default;
};

// Whether both are about the same address, protocol and port.
bool same_key(const InClusterEntry& one, const InClusterEntry& other);

// The chains for the entries of this family, of which those with one key count once. The first
// chain is called `first`, the others have that name, "-" and letters of a hash.
std::vector<Chain> search_chains(std::string_view first, netlink::Family family,
                                 const std::set<InClusterEntry>& entries);

// The entries whose rules are in chains that are made for addresses (rule_types.h), in any order.
std::vector<InClusterEntry> entries_in(const std::vector<Chain>& chains);

}  // namespace ipvsproxier::ipset
