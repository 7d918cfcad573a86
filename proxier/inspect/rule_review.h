#pragma once

// The rules of this host compared with those of our catalogue (ipset/rule_catalog.h), chain by
// chain in the order in which a packet meets them. Pure, any thread.
//
// The catalogue has parameters. Whether a set has elements is read; the options (mark, detection of
// local traffic, masquerading of all, ping) are taken to be those that leave the fewest
// differences, and the virtual services to which this node is not admitted those that have a rule.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ipset/rule_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::inspect {

struct RuleReading {
  std::map<plan::TableKey, ipset::WholeTable> tables;  // those that are there
  std::map<std::string, std::size_t> sets;             // how many elements each has
};

// Which chains: of this family, this table, this name; each may be left open. A chain that is named
// is shown whole, whosever it is.
struct RuleChoice {
  std::optional<netlink::Family> family;
  std::optional<ipset::Table> table;
  std::string chain;
};

enum class RuleState : std::uint8_t {
  ours,
  missing,
  missing_unsure,  // options could ask for another one instead
  misplaced,       // ours, but not where it belongs, or twice
  foreign,         // in a chain of ours or leading to one, and none of ours
  not_judged,      // in a chain that is not ours
};

struct ReviewedRule {
  ipset::Rule rule;
  ipset::RuleCount count;  // of what is there
  RuleState state = RuleState::ours;
};

struct ReviewedChain {
  plan::TableKey table;
  std::string name;
  std::optional<ipset::Verdict> policy;  // of a built-in one
  bool missing = false;
  bool reached = true;  // a rule that is there leads to it
  std::vector<ReviewedRule> rules;
};

// A built-in chain that leads to chains of ours, with these jumps; behind it those chains, each
// once, where they are met first; last those to which nothing leads. A table with nothing of ours
// has no chains.
std::vector<ReviewedChain> review_rules(const RuleReading& reading, const RuleChoice& choice);

}  // namespace ipvsproxier::inspect
