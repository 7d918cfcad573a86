#pragma once

// What in a legacy table drops packets of Services without looking at them. Pure; any thread.

#include <vector>

#include "ipset/rules/rule_types.h"
#include "proxier/check/facts.h"

namespace ipvsproxier::check {

// By the policy of a built-in chain, or by a rule in it that has no condition. FORWARD of the table
// filter does no harm: KUBE-FORWARD, which stands before all other rules there, accepts the answers
// of pods. What IPVS receives comes through INPUT, and what it sends to pods goes through OUTPUT,
// where nothing of ours accepts.
std::vector<DropFact> legacy_drops(netlink::Family family, ipset::Table table,
                                   const ipset::WholeTable& whole);

}  // namespace ipvsproxier::check
