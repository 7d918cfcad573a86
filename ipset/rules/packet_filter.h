#pragma once

// The packet filters that can hold our sets and rules, and what each holds. Pure; any thread.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {

enum class PacketFilter : std::uint8_t { iptables, nftables };

std::string_view to_string(PacketFilter filter);  // "iptables"

// In the order in which elements are added, set by set; they are removed in the opposite one. Sets
// that let traffic in come before sets that shut it out (source ranges before the firewall; every
// virtual service before the catch-all of the addresses), and exemptions from masquerading before
// masquerading.
std::span<const SetId> sets_of(PacketFilter filter);

// The set of the addresses of Services: new connections to their other ports are refused.
SetId vip_set(PacketFilter filter);

std::span<const Table> tables_of(PacketFilter filter);

// Our rules, for each of the tables.
std::vector<TableRules> rules_for(PacketFilter filter, netlink::Family family,
                                  const RuleParameters& parameters);

}  // namespace ipvsproxier::ipset
