#pragma once

// Rules of our vocabulary (rules/rule_types.h) as expressions of nf_tables, which nft(8) prints as
// foreign_steps.h does. rule_decoding.h is the opposite. Pure; any thread. Used by
// nft_rule_table.h.
//
// Numbers that packets carry are in network order, those that the kernel computes (mark, state,
// address type) in the machine's. Sources: net/netfilter/nft_*.c, nft_meta.h (6.1).

#include <string>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ipset {

// Empty for a rule with parts that only iptables has, or with a foreign target.
std::vector<netlink::NftExpression> expressions_of(const Rule& rule, netlink::Family family);

}  // namespace ipvsproxier::ipset
