#pragma once

// NftRuleTable: RuleTable of our tables of nf_tables (rules/nft_catalog.h). A table is written in
// one transaction: packets meet the old rules or the new ones. Sync thread only.
//
// A table of our name that somebody else made (nft_table_claim.h) is left alone. In ours nobody
// else has chains or sets: they are removed, and so is what is left of the source ranges of a
// virtual service when the map "restricted" was flushed.
//
// Errors: those of FilterTable; `malformed` for a rule that only iptables can have; `already` for a
// table that somebody else made.

#include <optional>
#include <string_view>

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_table.h"

namespace ipvsproxier::ipset {

// Where the kernel calls a chain of ours; nullopt: others lead to it.
std::optional<netlink::NftBase> base_of(std::string_view chain);

class NftRuleTable final : public RuleTable {
 public:
  // `table` must outlive this.
  explicit NftRuleTable(FilterTable& table) : table_(table) {}

  // Of the table kube-ipvs. A chain that the kernel calls elsewhere counts as missing, as do all
  // while the table is dormant. Chains and sets of others are listed, as chains without
  // rules, and so is what is left of source ranges.
  Result<TableRules> list(const TableRules& wanted) override;
  Result<bool> apply(const TableRules& desired) override;
  // Removes the whole table with its sets if `removal` is about it; the other tables are not ours.
  Result<RemovedRules> remove(const RuleRemoval& removal) override;
  // There is nothing to set aside: nobody else's rules lead to our chains.
  Result<bool> set_aside(const ChainMove& /*move*/, const RuleRemoval& /*surplus*/) override {
    return false;
  }

  Status can_keep_unaccelerated(netlink::Family family) override;

  // Whether the kernel takes our sets and rules: a table of another name with all of them is made
  // and deleted in one transaction, which packets never see. The kernel loads the modules for it.
  Status family_usable(netlink::Family family);

 private:
  Status write(const TableRules& desired, const TableRules& found, const FilterContents& contents);
  // A transaction of which packets see nothing, as it deletes its table.
  Status probe(netlink::NftUnit unit, netlink::Family family);

  FilterTable& table_;
};

}  // namespace ipvsproxier::ipset
