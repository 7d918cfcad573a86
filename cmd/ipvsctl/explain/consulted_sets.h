#pragma once

// The names of the IP sets that rules use. Pure; any thread.

#include <map>
#include <set>
#include <string>

#include "ipset/rules/rule_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::ctl {

using RuleTables = std::map<plan::TableKey, ipset::WholeTable>;

// Of rules of iptables alone: the sets of nf_tables are no IP sets.
std::set<std::string> consulted_sets(const RuleTables& tables);

}  // namespace ipvsproxier::ctl
