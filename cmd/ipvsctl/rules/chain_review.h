#pragma once

// One chain compared with its desired content. Pure, any thread.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "cmd/ipvsctl/rules/rule_review.h"
#include "cmd/ipvsctl/rules/wanted_rules.h"

namespace ipvsproxier::ctl {

// The existing rules, with the missing ones at their positions. Each function ends the review.
class ChainReview {
 public:
  // Refers to both values.
  ChainReview(const ipset::WholeTable& table, const WantedRules& wanted, std::string name);

  std::vector<ReviewedRule> ordered();
  std::vector<ReviewedRule> unordered();
  // All existing rules, in this state.
  std::vector<ReviewedRule> all_in(RuleState state);
  // For a built-in chain: the existing and missing jumps to our chains; with `all` also the other
  // rules.
  std::vector<ReviewedRule> jumps(const WantedRules& wanted, bool all);

 private:
  void there(std::size_t index, RuleState state);
  void absent(const ipset::Rule& rule);

  const ipset::WholeTable& table_;
  std::string name_;
  const std::vector<ipset::Rule>& actual_;
  const std::vector<ipset::Rule>& wanted_;
  const std::set<ipset::Rule>* sure_ = nullptr;
  std::vector<ReviewedRule> result_;
};

}  // namespace ipvsproxier::ctl
