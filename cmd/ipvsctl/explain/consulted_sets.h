#pragma once

// The names of the IP sets that rules use. Pure; any thread.

#include <map>
#include <set>
#include <string>

#include "cmd/ipvsctl/explain/packet.h"
#include "ipset/rules/rule_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::ctl {

using RuleTables = std::map<plan::TableKey, ipset::WholeTable>;

// Of rules of iptables alone: the sets of nf_tables are no IP sets.
std::set<std::string> consulted_sets(const RuleTables& tables);

// Of rules that iptables-nft has in tables of nf_tables.
std::set<std::string> consulted_sets(const std::map<std::string, NftRules>& tables);

}  // namespace ipvsproxier::ctl
