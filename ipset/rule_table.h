#pragma once

// RuleTable: the packet filter of one network namespace, as a seam, neutral of its backend. Sync
// thread only. Implementations: IptcRuleTable (rule_iptc.h), FakeRuleTable (test/fakes).

#include "ipset/rule_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

using netlink::Result;
using netlink::Status;

class RuleTable {
 public:
  virtual ~RuleTable() = default;

  // What the kernel has of `wanted`: its chains that exist, with the rules found in them (one that
  // is not in our vocabulary has a ForeignTarget), and its jumps that are present in the base
  // chains. Chains and jumps keep the order of `wanted`. Chains that are not in `wanted` are not
  // looked at.
  virtual Result<TableRules> list(const TableRules& wanted) = 0;

  // Makes the kernel hold `desired` in one commit under the xtables lock: creates missing chains,
  // rewrites only chains whose rules differ, inserts missing jumps at position 1. Nothing else is
  // touched. True if something was committed; without a difference nothing is written and packet
  // counters stay.
  virtual Result<bool> apply(const TableRules& desired) = 0;
};

}  // namespace ipvsproxier::ipset
