#pragma once

// Judges the facts of a node: can the daemon do its work there? Pure; any thread.

#include "proxier/check/facts.h"
#include "proxier/check/findings.h"

namespace ipvsproxier::check {

// In the order in which one would put things right. What was looked at and is fine has a finding of
// its own, one for each field of work.
Findings judge(const NodeFacts& facts, const Wanted& wanted);

}  // namespace ipvsproxier::check
