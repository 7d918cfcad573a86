#pragma once

// Findings as text for people and as JSON. Text of others is made visible (visible_text.h). Pure;
// any thread.

#include <string>

#include "proxier/check/facts.h"
#include "proxier/check/findings.h"

namespace ipvsproxier::check {

// One line for each finding, the worst first, with what to do below it: advice for the system of
// `facts`, each once. The last line is the verdict.
std::string to_text(const Findings& findings, const NodeFacts& facts);

// {"verdict", "status", "kernel", "system", "findings": [{"level", "about", "message", "advice":
// [{"system", "do", "source"}]}]}, with all advice.
std::string to_json(const Findings& findings, const NodeFacts& facts);

}  // namespace ipvsproxier::check
