#pragma once

// RuleChanges: the rules that a transaction writes before and after it changes elements (diff.h).
// Pure; valid as long as the states that it is made of.

#include <cstdint>
#include <map>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/scope.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::plan {

// None of a set that is absent or unknown.
const ipset::ElementSet& actual_elements(const ActualState& actual, SetKey key);

class RuleChanges {
 public:
  RuleChanges(const DesiredState& desired, const ActualState& actual, const Scope& scope);

  // Rules of the old and the new state together, where the kernel lacks some.
  std::vector<ipset::TableRules> prepared() const;
  // The same without the rules of earlier builds for clients within the cluster and for localhost
  // (ipset/rules/removal_catalog.h), which the kernel keeps until real servers were added.
  const std::vector<ipset::TableRules>& converted() const { return converted_; }
  // The tables to write after the transition. The kernel then holds either its old or the
  // transitional content, so only tables whose transitional content differs from the new one are
  // written again. The rules go on to consult elements that stay though they are not desired.
  std::vector<ipset::TableRules> settled(const std::map<SetKey, ipset::ElementSet>& staying);

 private:
  enum class Time : std::uint8_t { transition, converted, afterwards };

  std::vector<ipset::TableRules> tables(Time time) const;
  ipset::RuleParameters transitional(netlink::Family family,
                                     ipset::RuleParameters parameters) const;
  ipset::RuleParameters settled(netlink::Family family, ipset::RuleParameters parameters) const;
  bool is_consulted(SetKey key) const;
  bool guards_leftover(const ipset::Rule& rule) const;
  void keep_guards_of_leftovers(const ipset::TableRules& current, ipset::TableRules& wanted) const;

  const DesiredState& desired_;
  const ActualState& actual_;
  const Scope& scope_;
  std::map<SetKey, ipset::ElementSet> kept_;  // elements that stay, though they are not desired
  std::vector<ipset::TableRules> transition_;
  std::vector<ipset::TableRules> converted_;  // those of them that converted() changes
};

}  // namespace ipvsproxier::plan
