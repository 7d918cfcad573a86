#pragma once

// What the catalogue has for one table of this host. Pure, any thread.

#include <map>
#include <set>
#include <string>

#include "cmd/ipvsctl/rules/rule_review.h"

namespace ipvsproxier::ctl {

using RulesByChain = std::map<std::string, std::set<ipset::Rule>>;

struct Catalogue {
  // Our chains, whatever the settings, with the rules that the daemon's settings allow. Which
  // addresses have rules of their own is taken from the rules that are there.
  RulesByChain chains;
  RulesByChain jumps;  // by built-in chain
};

// Without settings of the family, or in iptables while our rules are in nf_tables, no chain has
// rules.
Catalogue catalogue_of(const RuleReading& reading, plan::TableKey key);

}  // namespace ipvsproxier::ctl
