#pragma once

// The rules of a table of nf_tables in our vocabulary (rules/rule_types.h), the opposite of
// rule_expressions.h. Pure; any thread. For programs that show or judge rules, whoever made them.

#include <map>
#include <span>
#include <string>

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// The rule that has these expressions, for packets of this family. Counters are no part of it. Sets
// of the table, which is ours if none is given, have their names as set_name() writes them
// ("ip kube-ipvs vips").
//
// A rule outside our vocabulary has a ForeignTarget: its description is that of words_of()
// (foreign_steps.h) with these sets; its action is the verdict, its conditions are unknown.
Rule rule_in(std::span<const netlink::NftExpression> expressions, netlink::Family family);
Rule rule_in(std::span<const netlink::NftExpression> expressions, netlink::Family family,
             const netlink::NftTableKey& table, const std::map<std::string, FilterSet>& sets);

// What a verdict makes of a packet; NoAction if it goes on to the next rule.
Action action_of(const netlink::NftVerdict& verdict);

// The sum of the counters of a rule; nullopt if it has none.
std::optional<RuleCount> count_in(std::span<const netlink::NftExpression> expressions);

// The chains of a table, with policies of the base chains.
WholeTable whole_table_of(const FilterContents& contents, netlink::Family family);
WholeTable whole_table_of(const FilterContents& contents, netlink::Family family,
                          const netlink::NftTableKey& table);

}  // namespace ipvsproxier::ipset
