#pragma once

// Which packet filter holds our sets and rules: what the administrator asks for, or what this
// kernel suggests. The rows of the decision are those of docs/operations.md. Pure; any thread.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/rules/packet_filter.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// --packet-filter.
enum class PacketFilterWish : std::uint8_t { automatic, iptables, nftables };

// What was found in this network namespace before anything was changed.
struct PacketFilterFacts {
  bool has_nft_table = false;          // our table of nf_tables, in either family
  bool has_foreign_nft_table = false;  // a table of our name that somebody else made
  bool has_our_iptables = false;       // the rules of this program, not kube-proxy's
  // The chains of legacy iptables that drop what only our rules of legacy iptables accept, and what
  // the administrator has to allow before nf_tables can be used; "": none is known.
  std::string only_iptables_accept;
  std::string unjudged;         // the tables of which that is not known, and why
  bool iptables_works = false;  // the kernel has legacy tables and IP sets, and they can be written
  bool nftables_works = false;  // the kernel takes our rules of IPv4
  std::string iptables_fault;   // why it does not work, where that is known
  std::string nftables_fault;   // the same; where it works, why it does not for IPv6
};

struct PacketFilterChoice {
  PacketFilter filter = PacketFilter::iptables;
  std::string reason;              // "our table of nf_tables is there"
  std::vector<std::string> notes;  // what the administrator should know of this packet filter

  friend bool operator==(const PacketFilterChoice&, const PacketFilterChoice&) = default;
};

// What kube-proxy needs before it gets back a node with our rules in nf_tables.
inline constexpr std::string_view kHandBack =
    "kube-proxy does not know the table kube-ipvs: before it gets this node back, run "
    "ipvs-proxier with --kube-proxy-compat until it has taken over from nftables, or with "
    "--cleanup, which interrupts Services";

// What a node with legacy iptables lacks without --kube-proxy-compat.
inline constexpr std::string_view kIptablesLacks =
    "legacy iptables does what kube-proxy's IPVS mode does: this node and its pods reach Services "
    "of externalTrafficPolicy Local as clients outside do, and node ports are not on localhost; "
    "--packet-filter=nftables has both";

// `unsupported`: the kernel has neither, or not the one that is asked for; the error says what to
// do. `compat`: --kube-proxy-compat, whose rules are those of iptables.
netlink::Result<PacketFilterChoice> choose_packet_filter(PacketFilterWish wish, bool compat,
                                                         const PacketFilterFacts& facts);

}  // namespace ipvsproxier::ipset
