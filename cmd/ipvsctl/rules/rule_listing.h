#pragma once

// Prints the rules of this host: as text, as a document, and in the format of iptables-save. Pure,
// any thread.

#include <cstdint>
#include <string>

#include "cmd/ipvsctl/rules/rule_review.h"

namespace ipvsproxier::ctl {

enum class RuleForm : std::uint8_t { text, json, yaml, save };

struct RuleStyle {
  RuleChoice choice;
  RuleForm form = RuleForm::text;
  bool counters = false;  // for RuleForm::save
  std::string socket;     // the daemon's, for its settings
};

// Text: one paragraph for each chain and one line for each rule, with packets and bytes (except in
// chains of nf_tables without a counter), the rule, and after '#' remarks: the rule's state, and
// its sets with their numbers of elements.
//
// RuleForm::save prints the iptables-save lines of our chains and of the jumps to them, by family
// and table. A rule outside our vocabulary (ipset/rules/rule_types.h) becomes a comment.
std::string rules_text(const RuleReading& reading, const RuleStyle& style);

}  // namespace ipvsproxier::ctl
