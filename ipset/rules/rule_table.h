#pragma once

// RuleTable: interface to the packet filter of one network namespace, independent of its backend.
// Sync thread only. Implementations: IptcRuleTable (rule_iptc.h), which holds the xtables lock
// during a commit, NftRuleTable (ipset/nftables/nft_rule_table.h), FakeRuleTable (test/fakes).

#include <set>

#include "ipset/rules/rule_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

using netlink::Result;
using netlink::Status;

class RuleTable {
 public:
  virtual ~RuleTable() = default;

  // The part of `wanted` that the kernel has: its existing chains with the rules found in them (a
  // rule outside our vocabulary has a ForeignTarget), and those of its jumps that stand in the base
  // chains. Chains and jumps keep the order of `wanted`. Other chains are not read, except
  // chains of earlier builds that have rules (is_of_earlier_build()): they come last.
  virtual Result<TableRules> list(const TableRules& wanted) = 0;

  // Makes the kernel hold `desired` in one commit: creates missing chains, rewrites only chains
  // whose rules differ, inserts missing jumps at position 1, removes chains of earlier
  // builds. Other chains and rules stay. True if something was committed; without a
  // difference nothing is written and packet counters stay.
  virtual Result<bool> apply(const TableRules& desired) = 0;

  // Removes the jumps and chains that `removal` names, in one commit. The rest, with its packet
  // counters, stays. Without anything to remove nothing is written; a table that does not exist is
  // not created.
  virtual Result<RemovedRules> remove(const RuleRemoval& removal) = 0;

  // Acts if a rule of the chain `move.jump.to` jumps to a chain that `surplus` names, and there is
  // no chain `move.aside`. It renames the chain to `move.aside` (jumps to it follow the rename),
  // creates an empty chain under the old name, and adds a jump to the new chain after the last jump
  // to the old one in each built-in chain. One commit; true if it was made. Packets meet the old
  // rules as before.
  virtual Result<bool> set_aside(const ChainMove& move, const RuleRemoval& surplus) = 0;

  // Whether the kernel takes rules with an UnacceleratedTarget. Changes nothing.
  virtual Status can_keep_unaccelerated(netlink::Family /*family*/) {
    return netlink::Error{netlink::ErrorKind::unsupported, 0,
                          "legacy iptables has no such rule; without --kube-proxy-compat a table "
                          "in nf_tables has it"};
  }
};

}  // namespace ipvsproxier::ipset
