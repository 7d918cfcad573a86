#pragma once

// Findings as text for people and as JSON. Text of others is made visible (visible_text.h). Pure;
// any thread.

#include <string>

#include "proxier/check/facts.h"
#include "proxier/check/findings.h"

namespace ipvsproxier::check {

// One line for each finding, the worst first, and below it what to do, each remedy once. The last
// line is the verdict.
std::string to_text(const Findings& findings);

// {"verdict", "status", "kernel", "findings": [{"level", "about", "message", "remedy"}]}.
std::string to_json(const Findings& findings, const NodeFacts& facts);

}  // namespace ipvsproxier::check
