#include "ipset/nftables/nft_rule_table.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {

using netlink::NftBase;

std::optional<NftBase> base_of(std::string_view chain) {
  const auto hook = hook_of(chain);
  if (!hook) return std::nullopt;
  return NftBase{.type = hook->type == ChainHook::Type::nat ? "nat" : "filter",
                 .hook = static_cast<netlink::NftHook>(hook->hook),
                 .priority = hook->priority};
}

namespace {

using netlink::NftAddChain;
using netlink::NftAddRule;
using netlink::NftAddTable;
using netlink::NftDeleteChain;
using netlink::NftDeleteTable;
using netlink::NftFlushChain;

using netlink::NftDeleteSet;

// What somebody else has put into our table.
struct Strangers {
  std::vector<std::string> chains;
  std::vector<std::string> sets;

  bool none() const { return chains.empty() && sets.empty(); }
};

Strangers strangers_in(const FilterContents& contents, const TableRules& wanted) {
  constexpr auto kUnnamed = netlink::NftSetSpec::kAnonymous;
  Strangers found;
  for (const auto& [name, chain] : contents.chains) {
    const bool ours = std::ranges::find(wanted.chains, name, &Chain::name) != wanted.chains.end();
    if (!ours && (chain.base || !restricted_of(name))) found.chains.push_back(name);
  }
  for (const auto& [name, set] : contents.sets)
    if (!has_name_of_ours(name, wanted.family) && (set.spec.flags & kUnnamed) == 0)
      found.sets.push_back(name);
  return found;
}

TableRules rules_in(const FilterContents& contents, const TableRules& wanted) {
  TableRules found{.family = wanted.family, .table = wanted.table, .chains = {}, .jumps = {}};
  for (const auto& chain : wanted.chains) {
    const auto there = contents.chains.find(chain.name);
    if (there == contents.chains.end() || there->second.base != base_of(chain.name)) continue;
    Chain read{.name = chain.name, .rules = {}};
    for (const auto& rule : there->second.rules)
      read.rules.push_back(rule_in(rule.expressions, wanted.family));
    found.chains.push_back(std::move(read));
  }
  return found;
}

// First the rules that keep the others from going.
netlink::NftUnit removal_of(const Strangers& strangers, Family family) {
  const auto key = nft_table_of(family);
  netlink::NftUnit unit;
  for (const auto& chain : strangers.chains) unit.ops.emplace_back(NftFlushChain{key, chain});
  for (const auto& set : strangers.sets) unit.ops.emplace_back(NftDeleteSet{key, set});
  for (const auto& chain : strangers.chains) unit.ops.emplace_back(NftDeleteChain{key, chain});
  return unit;
}

// The transaction that makes the table what is desired, given what it is.
Result<netlink::NftUnit> unit_for(const TableRules& desired, const TableRules& found,
                                  const FilterContents& contents) {
  const auto key = nft_table_of(desired.family);
  netlink::NftUnit unit{{NftAddTable{key}}};
  auto& ops = unit.ops;
  std::vector<const Chain*> differing;
  for (const auto& chain : desired.chains) {
    const auto has = std::ranges::find(found.chains, chain.name, &Chain::name);
    if (has != found.chains.end() && same_rules(*has, chain)) continue;
    differing.push_back(&chain);
    if (has != found.chains.end()) {
      ops.emplace_back(NftFlushChain{key, chain.name});
      continue;
    }
    if (contents.chains.contains(chain.name)) {
      ops.emplace_back(NftFlushChain{key, chain.name});
      ops.emplace_back(NftDeleteChain{key, chain.name});
    }
    ops.emplace_back(NftAddChain{key, {.name = chain.name, .base = base_of(chain.name)}});
  }
  for (const auto* chain : differing)
    for (const auto& rule : chain->rules) {
      auto expressions = expressions_of(rule, desired.family);
      if (expressions.empty())
        return netlink::Error{netlink::ErrorKind::malformed, 0,
                              "nf_tables cannot have the rule " + to_string(rule, desired.family)};
      ops.emplace_back(
          NftAddRule{key, {.chain = chain->name, .expressions = std::move(expressions)}});
    }
  return unit;
}

}  // namespace

Result<TableRules> NftRuleTable::list(const TableRules& wanted) {
  auto frame = table_.list_frame(nft_table_of(wanted.family));
  if (!frame) return std::move(frame.error());
  const bool in_force =
      claim_of(*frame, wanted.family) == TableClaim::ours && !(*frame)->flags.dormant;
  if (!in_force) return rules_in({}, wanted);
  auto found = rules_in(**frame, wanted);
  const auto strangers = strangers_in(**frame, wanted);
  for (const auto* names : {&strangers.chains, &strangers.sets})
    for (const auto& name : *names) found.chains.push_back({.name = name, .rules = {}});
  return found;
}

Result<bool> NftRuleTable::apply(const TableRules& desired) {
  auto frame = table_.list_frame(nft_table_of(desired.family));
  if (!frame) return std::move(frame.error());
  if (claim_of(*frame, desired.family) == TableClaim::foreign) return foreign_table(desired.family);
  const auto contents = frame->value_or(FilterContents{});
  const auto found = rules_in(contents, desired);
  const auto strangers = strangers_in(contents, desired);
  const bool is_right = holds(found, desired) && !contents.flags.dormant;
  if (is_right && strangers.none()) return false;
  if (!is_right) {
    auto unit = unit_for(desired, found, contents);
    if (!unit) return std::move(unit.error());
    if (auto applied = table_.apply({&*unit, 1}).front(); !applied)
      return std::move(applied.error());
  }
  if (strangers.none()) return true;
  const auto removal = removal_of(strangers, desired.family);
  auto gone = table_.apply({&removal, 1}).front();
  // Elements may lead to a chain yet; they go later, and the next reading finds it again.
  if (!gone && gone.error().kind != netlink::ErrorKind::busy) return std::move(gone.error());
  return true;
}

Status NftRuleTable::family_usable(Family family) {
  // Without what only some detectors need.
  RuleParameters parameters{.masquerade_all = true};
  parameters.non_empty.insert(kNftSetIds.begin(), kNftSetIds.end());
  auto unit = unit_for(nft_rules(family, parameters), {}, {});
  if (!unit) return std::move(unit.error());
  std::vector<netlink::NftOp> sets;
  for (const auto id : kNftSetIds)
    sets.emplace_back(netlink::NftAddSet{nft_table_of(family), nft_set_of(set_spec(id, family))});
  unit->ops.insert(unit->ops.begin() + 1, sets.begin(), sets.end());
  unit->ops.emplace_back(NftDeleteTable{nft_table_of(family)});
  for (auto& op : unit->ops)
    std::visit([](auto& one) { one.table.name = std::string(kOurNftTable) + "-probe"; }, op);
  return table_.apply({&*unit, 1}).front();
}

Result<RemovedRules> NftRuleTable::remove(const RuleRemoval& removal) {
  RemovedRules removed;
  if (removal.table != Table::kube_ipvs) return removed;
  const auto key = nft_table_of(removal.family);
  auto frame = table_.list_frame(key);
  if (!frame) return std::move(frame.error());
  const auto claim = claim_of(*frame, removal.family);
  if (claim == TableClaim::absent || claim == TableClaim::foreign) return removed;
  // The rules go a transaction earlier: packets may follow the old rules while they look elements
  // up as they are afterwards, and what refuses would miss what lets in.
  netlink::NftUnit rules;
  for (const auto& [name, chain] : (*frame)->chains)
    if (chain.base) rules.ops.emplace_back(NftFlushChain{key, name});
  const std::array<netlink::NftUnit, 2> steps{std::move(rules), {{NftDeleteTable{key}}}};
  for (const auto& step : steps)
    if (auto applied = table_.apply({&step, 1}).front();
        !applied && applied.error().kind != netlink::ErrorKind::missing)
      return std::move(applied.error());
  removed.chains = (*frame)->chains.size();
  return removed;
}

}  // namespace ipvsproxier::ipset
