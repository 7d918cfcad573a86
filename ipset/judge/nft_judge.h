#pragma once

// Carries out a rule of nf_tables for a packet, expression by expression with registers, as the
// kernel does (nft_do_chain() in net/netfilter/nf_tables_core.c, 6.1). Pure except for the facts;
// any thread.
//
// What is not known of the packet (its length, its time to live, a source port) is not known bit by
// bit, so that a rule may be decided all the same.

#include <functional>
#include <string>
#include <vector>

#include "ipset/judge/look_budget.h"
#include "ipset/judge/rule_judge.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/foreign_steps.h"

namespace ipvsproxier::ipset {

// The table of the rule, and what it looks up there; nullptr: no such set, or it is not known.
struct NftSets {
  std::string table;  // "inet host"
  std::function<const FilterSet*(const std::string& set)> find;
};

// Each expression is a step of the budget, as are 16 elements of a set that is looked up.
RuleOutcome judge_nft(const std::vector<NftStep>& steps, const NftSets& sets,
                      const NodeFacts& facts, const Packet& packet, LookBudget& budget);

}  // namespace ipvsproxier::ipset
