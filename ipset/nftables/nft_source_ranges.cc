#include "ipset/nftables/nft_source_ranges.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "ipset/nftables/rule_decoding.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::ErrorKind;
using netlink::IpPrefix;
using netlink::NftAddChain;
using netlink::NftAddElements;
using netlink::NftAddRule;
using netlink::NftAddSet;
using netlink::NftDeleteChain;
using netlink::NftDeleteElements;
using netlink::NftDeleteSet;
using netlink::NftFlushChain;
using netlink::NftFlushSet;
using netlink::NftUnit;
using netlink::Result;
using netlink::Status;

std::string restricted_map(netlink::Family family) {
  return std::string(name_in_table(set_name(SetId::nft_source_ranges, family)));
}

// Makes these the rules of the chain.
void append_rules(Family family, const std::string& name, const std::vector<Rule>& rules,
                  NftUnit& unit) {
  const auto table = nft_table_of(family);
  unit.ops.emplace_back(NftFlushChain{table, name});
  for (const auto& rule : rules)
    unit.ops.emplace_back(
        NftAddRule{table, {.chain = name, .expressions = expressions_of(rule, family)}});
}

// The ranges that go and those that come: whole intervals, as the kernel takes no part of one.
NftUnit step_between(const RangesElement& before, const RangesElement& after) {
  const auto service = restricted_by(after);
  std::vector<IpPrefix> leaving;
  std::vector<IpPrefix> coming;
  std::ranges::set_difference(before.ranges, after.ranges, std::back_inserter(leaving));
  std::ranges::set_difference(after.ranges, before.ranges, std::back_inserter(coming));
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  NftUnit unit;
  if (!leaving.empty())
    unit.ops.emplace_back(NftDeleteElements{table, name, intervals_of(std::move(leaving))});
  if (!coming.empty())
    unit.ops.emplace_back(NftAddElements{table, name, intervals_of(std::move(coming))});
  const auto rules = rules_of_ranges(service, after.ranges);
  if (rules != rules_of_ranges(service, before.ranges))
    append_rules(service.address.family(), name, rules, unit);
  return unit;
}

// Everything of a restricted virtual service, whatever of it is there.
NftUnit whole_of(const RangesElement& ranges) {
  const auto service = restricted_by(ranges);
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  NftUnit unit{{NftAddSet{table, ranges_set_of(service)}, NftFlushSet{table, name},
                NftAddElements{table, name, intervals_of(ranges.ranges)},
                NftAddChain{table, {.name = name, .base = {}}}}};
  append_rules(service.address.family(), name, rules_of_ranges(service, ranges.ranges), unit);
  unit.ops.emplace_back(NftAddElements{
      table, restricted_map(service.address.family()), {restricted_element_of(service)}});
  return unit;
}

NftDeleteElements leave_map(const RestrictedService& service) {
  auto element = restricted_element_of(service);
  element.data.reset();
  const auto family = service.address.family();
  return {nft_table_of(family), restricted_map(family), {std::move(element)}};
}

NftUnit removal_of_chains(const RestrictedService& service) {
  NftUnit unit;
  for (const auto& chain : chains_of(service)) append_removal(chain, unit);
  return unit;
}

// A removal of what is not there has nothing to do.
Status unless_missing(Status status) {
  if (!status && status.error().kind == ErrorKind::missing) return {};
  return status;
}

}  // namespace

bool is_lost(const Status& status) {
  return !status &&
         (status.error().kind == ErrorKind::timeout || status.error().kind == ErrorKind::overrun);
}

void append_chain(const RestrictedChain& chain, NftUnit& unit) {
  const auto family = chain.service.address.family();
  const auto name = to_string(chain);
  unit.ops.emplace_back(NftAddChain{nft_table_of(family), {.name = name, .base = {}}});
  append_rules(family, name, rules_of(chain), unit);
}

bool is_as_made(const RestrictedChain& chain, const FilterChain& found) {
  return std::ranges::equal(found.rules, rules_of(chain), [&](const auto& has, const Rule& wanted) {
    return rule_in(has.expressions, chain.service.address.family()) == wanted;
  });
}

void append_removal(const RestrictedChain& chain, NftUnit& unit) {
  const auto table = nft_table_of(chain.service.address.family());
  const auto name = to_string(chain);
  unit.ops.emplace_back(NftAddChain{table, {.name = name, .base = {}}});
  unit.ops.emplace_back(NftDeleteChain{table, name});
}

std::set<RestrictedService> restricted_in(const FilterContents& frame,
                                          std::span<const netlink::NftElement> map, Family family) {
  std::set<RestrictedService> services;
  for (const auto& element : map) {
    const auto service = service_of(element.key, family);
    if (!service || restricted_element_of(*service) != element) continue;
    const auto name = ranges_name(*service);
    const auto chain = frame.chains.find(name);
    const auto set = frame.sets.find(name);
    if (chain != frame.chains.end() && !chain->second.base && set != frame.sets.end() &&
        set->second.spec == ranges_set_of(*service))
      services.insert(*service);
  }
  return services;
}

NftUnit removal_of_rest(const RestrictedService& service, const FilterContents& frame,
                        bool in_map) {
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  NftUnit unit;
  if (in_map) unit.ops.emplace_back(leave_map(service));
  for (const auto& chain : chains_of(service))
    if (frame.chains.contains(to_string(chain))) append_removal(chain, unit);
  if (frame.chains.contains(name)) unit.ops.emplace_back(NftDeleteChain{table, name});
  if (frame.sets.contains(name)) unit.ops.emplace_back(NftDeleteSet{table, name});
  return unit;
}

Status NftSourceRanges::commit(NftUnit unit) {
  return table_.apply({&unit, 1}).front();
}

Result<std::optional<NftSourceRanges::Chains>> NftSourceRanges::services(netlink::Family family) {
  using Found = std::optional<Chains>;
  const auto table = nft_table_of(family);
  const auto map = restricted_map(family);
  auto frame = table_.list_frame(table);
  if (!frame) return std::move(frame.error());
  if (!*frame || !(*frame)->sets.contains(map)) return Found{};
  auto restricted = table_.list_elements(table, map);
  if (!restricted) return std::move(restricted.error());
  Chains services;
  const auto elements = restricted->value_or(std::vector<netlink::NftElement>{});
  for (const auto& service : restricted_in(**frame, elements, family)) {
    auto& rules = services.emplace_back(service, std::vector<Rule>{}).second;
    for (const auto& rule : (*frame)->chains.at(ranges_name(service)).rules)
      rules.push_back(rule_in(rule.expressions, family));
  }
  return Found(std::move(services));
}

Result<std::optional<RangesElement>> NftSourceRanges::read(const RestrictedService& service,
                                                           const std::vector<Rule>& chain) {
  using Found = std::optional<RangesElement>;
  const auto family = service.address.family();
  auto listed = table_.list_elements(nft_table_of(family), ranges_name(service));
  if (!listed) return std::move(listed.error());
  if (!*listed) return Found{};
  auto prefixes = prefixes_of(**listed, family);
  if (!prefixes || prefixes->empty() || rules_of_ranges(service, *prefixes) != chain)
    return Found{};
  return Found({service.address, service.protocol, service.port, *std::move(prefixes)});
}

Result<std::optional<std::vector<Element>>> NftSourceRanges::read_all(netlink::Family family) {
  using Found = std::optional<std::vector<Element>>;
  auto found = services(family);
  if (!found) return std::move(found.error());
  if (!*found) return Found{};
  std::vector<Element> elements;
  for (const auto& [service, chain] : **found) {
    auto own = read(service, chain);
    if (!own) return std::move(own.error());
    if (*own) elements.emplace_back(**std::move(own));
  }
  return Found(std::move(elements));
}

NftUnit NftSourceRanges::change(const RangesElement* before, const RangesElement& after) {
  return before == nullptr ? whole_of(after) : step_between(*before, after);
}

NftUnit NftSourceRanges::removal(const RestrictedService& service) {
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  NftUnit unit{{leave_map(service)}};
  std::ranges::move(removal_of_chains(service).ops, std::back_inserter(unit.ops));
  unit.ops.emplace_back(NftDeleteChain{table, name});
  unit.ops.emplace_back(NftDeleteSet{table, name});
  return unit;
}

Status NftSourceRanges::write(const RangesElement& ranges) {
  const auto service = restricted_by(ranges);
  auto unit = whole_of(ranges);
  auto status = commit(unit);
  if (status || is_lost(status)) return status;
  const auto found = table_.find_set(nft_table_of(service.address.family()), ranges_name(service));
  if (found && *found && *found != ranges_set_of(service)) return replace(ranges);
  if (status.error().kind != ErrorKind::already) return status;
  // The map sends its packets somewhere else.
  unit.ops.insert(unit.ops.end() - 1, leave_map(service));
  return commit(std::move(unit));
}

// Another program made the set again, of another type. Rules of others that look into it are
// removed with it.
Status NftSourceRanges::replace(const RangesElement& ranges) {
  const auto service = restricted_by(ranges);
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  const auto frame = table_.list_frame(table);
  if (!frame) return frame.error();
  NftUnit unit{removal_of_lookups(table, frame->value_or(FilterContents{}), name)};
  unit.ops.emplace_back(NftDeleteSet{table, name});
  std::ranges::move(whole_of(ranges).ops, std::back_inserter(unit.ops));
  auto status = commit(unit);
  if (status || status.error().kind != ErrorKind::already) return status;
  unit.ops.insert(unit.ops.end() - 1, leave_map(service));
  return commit(std::move(unit));
}

Status NftSourceRanges::remove(const RestrictedService& service) {
  auto status = commit(removal(service));
  if (status || status.error().kind != ErrorKind::missing) return status;
  // Some of it is gone already.
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  if (auto left = unless_missing(commit({{leave_map(service)}})); !left) return left;
  if (auto chains = commit(removal_of_chains(service)); !chains) return chains;
  if (auto chain = unless_missing(commit({{NftDeleteChain{table, name}}})); !chain) return chain;
  return unless_missing(commit({{NftDeleteSet{table, name}}}));
}

}  // namespace ipvsproxier::ipset
