#include "ipset/nftables/nft_rule_table.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nftables/flow_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_source_ranges.h"
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

// What of our table is not as we make it, beside the fixed chains.
struct Others {
  std::vector<std::string> chains;  // somebody else's
  std::vector<std::string> sets;
  std::vector<RestrictedChain> changed;
  // The table has something of them, but does not restrict them. Removed unless elements lead there
  // yet: then source ranges are about to be written again.
  std::set<RestrictedService> rest;
  std::set<RestrictedService> in_map;  // "restricted"

  bool none() const { return chains.empty() && sets.empty() && changed.empty() && rest.empty(); }
};

class OthersSearch {
 public:
  OthersSearch(const FilterContents& contents, const TableRules& wanted,
               const std::vector<netlink::NftElement>& map)
      : contents_(contents),
        wanted_(wanted),
        restricted_(restricted_in(contents, map, wanted.family)) {
    for (const auto& element : map)
      if (const auto service = service_of(element.key, wanted.family))
        found_.in_map.insert(*service);
  }

  Others run() {
    for (const auto& service : found_.in_map) note(service);
    for (const auto& [name, chain] : contents_.chains) note_chain(name, chain);
    for (const auto& [name, set] : contents_.sets) note_set(name, set);
    return std::move(found_);
  }

 private:
  bool note(const RestrictedService& service) {
    if (service.address.family() != wanted_.family) return false;
    if (!restricted_.contains(service)) found_.rest.insert(service);
    return true;
  }

  void note_chain(const std::string& name, const FilterChain& chain) {
    if (std::ranges::find(wanted_.chains, name, &Chain::name) != wanted_.chains.end()) return;
    if (!chain.base) {
      if (const auto service = restricted_of(name); service && note(*service)) return;
      const auto own = restricted_chain_of(name);
      if (own && note(own->service)) {
        if (restricted_.contains(own->service) && !is_as_made(*own, chain))
          found_.changed.push_back(*own);
        return;
      }
    }
    found_.chains.push_back(name);
  }

  void note_set(const std::string& name, const FilterSet& set) {
    if (const auto service = restricted_of(name); service && note(*service)) return;
    constexpr auto kUnnamed = netlink::NftSetSpec::kAnonymous;
    if (!has_name_of_ours(name, wanted_.family) && (set.spec.flags & kUnnamed) == 0)
      found_.sets.push_back(name);
  }

  const FilterContents& contents_;
  const TableRules& wanted_;
  std::set<RestrictedService> restricted_;
  Others found_;
};

Result<Others> others_in(FilterTable& table, const FilterContents& contents,
                         const TableRules& wanted) {
  const std::string map(name_in_table(set_name(SetId::nft_source_ranges, wanted.family)));
  if (!contents.sets.contains(map)) return OthersSearch(contents, wanted, {}).run();
  auto elements = table.list_elements(nft_table_of(wanted.family), map);
  if (!elements) return std::move(elements.error());
  return OthersSearch(contents, wanted, elements->value_or(std::vector<netlink::NftElement>{}))
      .run();
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

// What makes an end of them, each unit by itself.
std::vector<netlink::NftUnit> end_of(const Others& others, const FilterContents& contents,
                                     Family family) {
  const auto key = nft_table_of(family);
  std::vector<netlink::NftUnit> units;
  // First the rules that keep the others from going.
  netlink::NftUnit strangers;
  for (const auto& chain : others.chains) strangers.ops.emplace_back(NftFlushChain{key, chain});
  for (const auto& set : others.sets) strangers.ops.emplace_back(NftDeleteSet{key, set});
  for (const auto& chain : others.chains) strangers.ops.emplace_back(NftDeleteChain{key, chain});
  if (!strangers.ops.empty()) units.push_back(std::move(strangers));
  for (const auto& chain : others.changed) append_chain(chain, units.emplace_back());
  for (const auto& service : others.rest)
    units.push_back(removal_of_rest(service, contents, others.in_map.contains(service)));
  return units;
}

bool uses_expectation(const Chain& chain) {
  return std::ranges::any_of(chain.rules, [](const Rule& rule) {
    return std::holds_alternative<UnacceleratedTarget>(rule.target);
  });
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
  if (std::ranges::any_of(differing, [](const auto* chain) { return uses_expectation(*chain); }))
    ops.emplace_back(netlink::NftAddExpectation{key, unaccelerated_object()});
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
  const auto others = others_in(table_, **frame, wanted);
  if (!others) return others.error();
  for (const auto* names : {&others->chains, &others->sets})
    for (const auto& name : *names) found.chains.push_back({.name = name, .rules = {}});
  for (const auto& chain : others->changed)
    found.chains.push_back({.name = to_string(chain), .rules = {}});
  for (const auto& service : others->rest)
    found.chains.push_back({.name = ranges_name(service), .rules = {}});
  return found;
}

Status NftRuleTable::write(const TableRules& desired, const TableRules& found,
                           const FilterContents& contents) {
  const auto key = nft_table_of(desired.family);
  const netlink::NftUnit end{{netlink::NftDeleteExpectation{key, std::string(kUnaccelerated)}}};
  const bool wanted = keeps_unaccelerated(desired);
  if (wanted && !contents.chains.empty()) {
    const auto there = table_.find_expectation(key, std::string(kUnaccelerated));
    if (!there) return there.error();
    // Somebody else made it; a rule that uses it is not ours, and goes first.
    if (*there && **there != unaccelerated_object()) static_cast<void>(table_.apply({&end, 1}));
  }
  auto unit = unit_for(desired, found, contents);
  if (!unit) return std::move(unit.error());
  if (auto applied = table_.apply({&*unit, 1}).front(); !applied) return applied;
  // A failure leaves an object that does nothing.
  if (!wanted && keeps_unaccelerated(found)) static_cast<void>(table_.apply({&end, 1}));
  return {};
}

Result<bool> NftRuleTable::apply(const TableRules& desired) {
  auto frame = table_.list_frame(nft_table_of(desired.family));
  if (!frame) return std::move(frame.error());
  if (claim_of(*frame, desired.family) == TableClaim::foreign) return foreign_table(desired.family);
  const auto contents = frame->value_or(FilterContents{});
  const auto found = rules_in(contents, desired);
  const auto others = others_in(table_, contents, desired);
  if (!others) return others.error();
  const bool is_right = holds(found, desired) && !contents.flags.dormant;
  if (is_right && others->none()) return false;
  if (!is_right)
    if (auto written = write(desired, found, contents); !written) return std::move(written.error());
  for (auto& ended : table_.apply(end_of(*others, contents, desired.family))) {
    // Elements may lead to a chain yet; they go later, and the next reading finds it again.
    const auto kind = ended ? netlink::ErrorKind::busy : ended.error().kind;
    if (kind != netlink::ErrorKind::busy && kind != netlink::ErrorKind::missing)
      return std::move(ended.error());
  }
  return true;
}

Status NftRuleTable::family_usable(Family family) {
  // Without what only some detectors need.
  RuleParameters parameters{.masquerade_all = true, .drop_invalid = true};
  parameters.non_empty.insert(kNftSetIds.begin(), kNftSetIds.end());
  auto unit = unit_for(nft_rules(family, parameters), {}, {});
  if (!unit) return std::move(unit.error());
  std::vector<netlink::NftOp> sets;
  for (const auto id : kNftSetIds)
    sets.emplace_back(netlink::NftAddSet{nft_table_of(family), nft_set_of(set_spec(id, family))});
  unit->ops.insert(unit->ops.begin() + 1, sets.begin(), sets.end());
  return probe(*std::move(unit), family);
}

Status NftRuleTable::probe(netlink::NftUnit unit, Family family) {
  unit.ops.emplace_back(NftDeleteTable{nft_table_of(family)});
  for (auto& op : unit.ops)
    std::visit([](auto& one) { one.table.name = std::string(kOurNftTable) + "-probe"; }, op);
  return table_.apply({&unit, 1}).front();
}

Status NftRuleTable::can_keep_unaccelerated(Family family) {
  TableRules rules{.family = family, .table = Table::kube_ipvs, .chains = {}, .jumps = {}};
  rules.chains.push_back({.name = "input", .rules = {{.target = UnacceleratedTarget{}}}});
  auto unit = unit_for(rules, {}, {});
  if (!unit) return std::move(unit.error());
  return probe(*std::move(unit), family);
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
