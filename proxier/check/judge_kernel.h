#pragma once

// The part of judge() that is about the kernel: options, modules, families. Pure; any thread.

#include "proxier/check/facts.h"
#include "proxier/check/findings.h"

namespace ipvsproxier::check {

void judge_kernel(const NodeFacts& facts, const Wanted& wanted, Findings& findings);

}  // namespace ipvsproxier::check
