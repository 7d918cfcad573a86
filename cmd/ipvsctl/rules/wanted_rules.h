#pragma once

// The rules that should stand in the tables of this host, concluded from those that do
// (rule_review.h). Pure, any thread.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cmd/ipvsctl/rules/rule_review.h"
#include "ipset/rules/packet_filter.h"

namespace ipvsproxier::ctl {

using RulesByChain = std::map<std::string, std::vector<ipset::Rule>>;

// None of an absent chain or table.
const std::vector<ipset::Rule>& rules_of(const RulesByChain& chains, const std::string& name);
const ipset::WholeTable* table_of(const RuleReading& reading, plan::TableKey key);

// The chain to which a rule jumps; "" for others.
std::string target_chain(const ipset::Rule& rule);

// The catalogues with the fewest differences; several if they are equally near.
std::vector<std::vector<ipset::TableRules>> nearest_rules(const RuleReading& reading,
                                                          ipset::PacketFilter filter,
                                                          netlink::Family family);

// The desired content of one table.
struct WantedRules {
  RulesByChain chains;
  RulesByChain jumps;  // by built-in chain, in the order in which a packet meets them
  // The rules of each chain that all option guesses have in common.
  std::map<std::string, std::set<ipset::Rule>> sure;
};

WantedRules wanted_in(const std::vector<std::vector<ipset::TableRules>>& nearest,
                      ipset::Table table);

}  // namespace ipvsproxier::ctl
