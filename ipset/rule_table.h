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

  // Removes the jumps and chains that are named, in one commit under the xtables lock. All else,
  // with its packet counters, stays. Where there is nothing to remove nothing is written; a table
  // that does not exist is not made.
  virtual Result<RemovedRules> remove(const RuleRemoval& removal) = 0;

  // If a rule of the chain `move.jump.to` leads to a chain that `surplus` names, and there is no
  // chain `move.aside`: gives the chain that name, so that all that leads to it goes on doing so,
  // and puts an empty chain in its place, with a jump behind the last one to the old chain in each
  // built-in chain. One commit; true if it was made. Packets meet the old rules as before.
  virtual Result<bool> set_aside(const ChainMove& move, const RuleRemoval& surplus) = 0;
};

}  // namespace ipvsproxier::ipset
