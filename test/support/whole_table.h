#pragma once

// Rules as a reading of a whole table has them.

#include "ipset/rules/rule_types.h"

namespace ipvsproxier::test {

// A table that holds these rules alone; its built-in chains accept.
inline ipset::WholeTable whole_table(const ipset::TableRules& rules) {
  ipset::WholeTable whole;
  for (const char* chain : {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}) {
    whole.chains[chain];
    whole.policies[chain] = ipset::Verdict::accept;
  }
  for (const auto& chain : rules.chains) whole.chains[chain.name] = chain.rules;
  for (const auto& jump : rules.jumps) {
    auto& base = whole.chains[jump.from];
    base.insert(base.begin(), jump.rule);
  }
  return whole;
}

}  // namespace ipvsproxier::test
