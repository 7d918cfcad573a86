#pragma once

// The fixed chains of the table "kube-ipvs" that each family has in nf_tables, and where the kernel
// calls them. They do with three lookups what the rules of rule_catalog.h do with up to twenty; an
// established packet costs one rule, or two rules and a lookup while there are source ranges. Pure
// functions; any thread.
//
// input:       established packets leave, those of virtual services with source ranges after these;
//              then the map of virtual services decides about source ranges and the source address;
//              other ports of VIPs are closed
// output:      the same for packets of this node
// prerouting:  packets of pods to virtual services of external policy Local go to the cluster IP;
//              the destination of other packets to VIPs is settled, so that no later chain of
//              another table (a hostPort) changes it, and so is that of packets to ports of
//              Services on addresses of other links. Output does both for packets of this node
// postrouting: masquerades what input or output has marked, and endpoints that reach themselves
// forward:     drops invalid packets of pods and endpoints, as input does, and keeps the packets of
//              localhost_rules.h inside the loop; the chain exists only while it has a rule
//
// Where somebody else's rule adds connections to a flowtable, a rule at the beginning of each chain
// to which the map leads keeps those of virtual services out (RuleParameters::unaccelerated).
//
// Virtual services with source ranges have chains of their own beside these (nft_set_elements.h).
// Whenever somebody leads packets to a chain, the kernel follows every element of a map through all
// chains that it leads to (nft_table_validate() in net/netfilter/nf_tables_api.c). So no chain to
// which elements lead looks into a map of verdicts: that would be a square of their number.
//
// IPVS takes packets at priorities 98 and 99 of the hook input, and -99 and -98 of output
// (net/netfilter/ipvs/ip_vs_core.c, 6.1): ours come before it. Priorities are odd, because of two
// chains of equal priority the newer one runs first.

#include <cstdint>
#include <optional>
#include <string_view>

#include "ipset/rules/rule_catalog.h"

namespace ipvsproxier::ipset {

inline constexpr std::string_view kOurNftTable = "kube-ipvs";

// The object by which rules keep connections out of flowtables: a ct expectation of size 0
// (netlink::NftExpectation).
inline constexpr std::string_view kUnaccelerated = "unaccelerated";

// Where the kernel calls a chain; values as in <linux/netfilter.h>.
struct ChainHook {
  enum class Type : std::uint8_t { filter, nat };
  enum class Hook : std::uint8_t {
    prerouting = 0,
    input = 1,
    forward = 2,
    output = 3,
    postrouting = 4
  };

  Type type = Type::filter;
  Hook hook = Hook::input;
  std::int32_t priority = 0;

  friend bool operator==(const ChainHook&, const ChainHook&) = default;
};

// nullopt: other chains jump to it.
std::optional<ChainHook> hook_of(std::string_view chain);

// The chain to which the map of virtual services sends packets. Not for a foreign verdict.
std::string_view chain_of(ServiceVerdict verdict);

// "vips" of "ip kube-ipvs vips".
std::string_view name_in_table(std::string_view set);

// Whether a set of ports is asked, by the destination port of the rule's protocol. Other sets have
// addresses, and so has the set of a rule that names its port.
bool asks_for_port(const Rule& rule, const SetMatch& match);

// Whether one of the chains settles destinations (RuleParameters::keep_destinations).
bool keeps_destinations(const TableRules& rules);

// Whether one of the chains keeps connections out of flowtables.
bool keeps_unaccelerated(const TableRules& rules);

// All our chains. The parameter `out_filter` has no meaning here: source
// ranges hold for packets of this node as well, and a map has the destinations.
TableRules nft_rules(netlink::Family family, const RuleParameters& parameters);

}  // namespace ipvsproxier::ipset
