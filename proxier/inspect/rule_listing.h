#pragma once

// The rules of this host, as a person reads them, as a document, and as iptables-save prints them.
// Pure, any thread.

#include <cstdint>
#include <string>

#include "proxier/inspect/rule_review.h"

namespace ipvsproxier::inspect {

enum class RuleForm : std::uint8_t { text, json, yaml, save };

struct RuleStyle {
  RuleChoice choice;
  RuleForm form = RuleForm::text;
  bool counters = false;  // of RuleForm::save
};

// Text: a chain a paragraph, a rule a line: packets, bytes, the rule, and behind '#' what is to be
// said of it, the sets that it asks with the number of their elements.
//
// RuleForm::save has the lines that iptables-save has for our chains and the jumps to them, table
// by table; of each family in turn. A rule that is not in our vocabulary is a comment.
std::string rules_text(const RuleReading& reading, const RuleStyle& style);

}  // namespace ipvsproxier::inspect
