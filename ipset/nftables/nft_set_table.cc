#include "ipset/nftables/nft_set_table.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::NftAddChain;
using netlink::NftAddElements;
using netlink::NftAddRule;
using netlink::NftAddSet;
using netlink::NftAddTable;
using netlink::NftDeleteChain;
using netlink::NftDeleteElements;
using netlink::NftDeleteSet;
using netlink::NftFlushChain;
using netlink::NftFlushSet;
using netlink::NftUnit;

// Listings in parts, disturbed, before one at once.
constexpr int kMostDisturbances = 2;
// Virtual services with source ranges in a part of a listing: some ms.
constexpr std::size_t kServicesAPart = 64;

// Of a name that set_name() made.
std::optional<SetSpec> spec_of(const std::string& name) {
  for (const auto family : netlink::kFamilies)
    for (const auto id : kNftSetIds)
      if (set_name(id, family) == name) return set_spec(id, family);
  return std::nullopt;
}

const SetSpec& restricted_map(Family family) {
  static const std::array kMaps{set_spec(SetId::nft_source_ranges, Family::ipv4),
                                set_spec(SetId::nft_source_ranges, Family::ipv6)};
  return kMaps[family == Family::ipv4 ? 0 : 1];
}

Error unfit(const SetSpec& spec, const Element& element) {
  return {ErrorKind::malformed, 0,
          fmt::format("{}: not an element of {}", to_string(element), spec.name)};
}

// A removal of what is not there has nothing to do.
Status forgive_missing(Status status) {
  if (!status && status.error().kind == ErrorKind::missing) return {};
  return status;
}

std::vector<netlink::NftRuleSpec> rules_of_ranges(const RestrictedService& service) {
  const auto name = ranges_name(service);
  const auto family = service.address.family();
  return {{.chain = name, .expressions = returns_sources_in(name, family)},
          {.chain = name, .expressions = expressions_of({.target = Verdict::drop}, family)}};
}

// Whether the chain lets its ranges pass and nothing else.
bool is_intact(const FilterContents& contents, const RestrictedService& service) {
  const auto chain = contents.chains.find(ranges_name(service));
  if (chain == contents.chains.end() || chain->second.base) return false;
  return std::ranges::equal(chain->second.rules, rules_of_ranges(service), {},
                            &FilterRule::expressions, &netlink::NftRuleSpec::expressions);
}

// The ranges that go and those that come: whole intervals, as the kernel takes no part of one.
NftUnit step_between(const RestrictedService& service, const std::set<IpPrefix>& old_ranges,
                     const std::set<IpPrefix>& new_ranges) {
  const auto before = outermost_of({old_ranges.begin(), old_ranges.end()});
  const auto after = outermost_of({new_ranges.begin(), new_ranges.end()});
  std::vector<IpPrefix> leaving;
  std::vector<IpPrefix> coming;
  std::ranges::set_difference(before, after, std::back_inserter(leaving));
  std::ranges::set_difference(after, before, std::back_inserter(coming));
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  NftUnit unit;
  if (!leaving.empty())
    unit.ops.emplace_back(NftDeleteElements{table, name, intervals_of(std::move(leaving))});
  if (!coming.empty())
    unit.ops.emplace_back(NftAddElements{table, name, intervals_of(std::move(coming))});
  return unit;
}

std::optional<RestrictedService> restricted_by(const netlink::NftElement& element) {
  const auto* verdict = element.data ? std::get_if<netlink::NftVerdict>(&*element.data) : nullptr;
  if (verdict == nullptr) return std::nullopt;
  auto service = restricted_of(verdict->chain);
  if (!service || restricted_element_of(*service) != element) return std::nullopt;
  return service;
}

// The addition of an element whose key has other data.
NftUnit replacement_of(NftUnit addition) {
  auto old = std::get<NftAddElements>(addition.ops.front());
  for (auto& element : old.elements) element.data.reset();
  addition.ops.insert(addition.ops.begin(), NftDeleteElements{old.table, old.set, old.elements});
  return addition;
}

// Keys that are none of ours are left out.
std::vector<Element> elements_of(const SetSpec& spec, std::span<const netlink::NftElement> listed) {
  std::vector<Element> elements;
  for (const auto& one : listed)
    if (auto element = element_of(spec, one)) elements.push_back(*element);
  return elements;
}

std::vector<Element> elements_of(const std::map<RestrictedService, std::set<IpPrefix>>& ranges) {
  std::vector<Element> elements;
  for (const auto& [service, prefixes] : ranges)
    for (const auto& prefix : prefixes)
      elements.emplace_back(
          IpPortNetElement{service.address, service.protocol, service.port, prefix});
  return elements;
}

}  // namespace

Status NftSetTable::commit(NftUnit unit) {
  return table_.apply({&unit, 1}).front();
}

Status NftSetTable::ensure(const SetSpec& spec) {
  const auto table = nft_table_of(spec.family);
  auto frame = table_.list_frame(table);
  if (!frame) return std::move(frame.error());
  const auto wanted = nft_set_of(spec);
  if (*frame) {
    const auto has = (*frame)->sets.find(wanted.name);
    if (has != (*frame)->sets.end()) {
      if (has->second.spec == wanted) return {};
      return Error{ErrorKind::already, 0,
                   fmt::format("{} exists with another type; delete the table {} of nf_tables",
                               spec.name, netlink::to_string(table))};
    }
  }
  NftUnit unit{{NftAddTable{table}, NftAddSet{table, wanted}}};
  // The chains to which its elements will lead; their rules come with the others.
  if (spec.kind == SetKind::nft_services)
    for (const auto verdict : {ServiceVerdict::keep, ServiceVerdict::mark, ServiceVerdict::cluster})
      unit.ops.emplace_back(
          NftAddChain{table, {.name = std::string(chain_of(verdict)), .base = {}}});
  return commit(std::move(unit));
}

Result<std::optional<ListedSet>> NftSetTable::list(const std::string& name) {
  const auto spec = spec_of(name);
  if (!spec) return std::optional<ListedSet>{};
  auto elements = elements_in(*spec);
  if (!elements) return std::move(elements.error());
  if (!*elements) return std::optional<ListedSet>{};
  ListedSet listed{.spec = *spec, .options = {}, .elements = *std::move(*elements)};
  std::ranges::sort(listed.elements);
  return std::optional(std::move(listed));
}

Result<std::optional<std::vector<Element>>> NftSetTable::elements_in(const SetSpec& spec) {
  using Found = std::optional<std::vector<Element>>;
  if (spec.kind == SetKind::nft_source_ranges) {
    ranges_.erase(spec.family);
    auto ranges = read_ranges(spec.family);
    if (!ranges) return std::move(ranges.error());
    if (!*ranges) return Found{};
    auto elements = elements_of(**ranges);
    ranges_[spec.family] = *std::move(*ranges);
    return Found(std::move(elements));
  }
  auto listed =
      table_.list_elements(nft_table_of(spec.family), std::string(name_in_table(spec.name)));
  if (!listed) return std::move(listed.error());
  if (!*listed) return Found{};
  return Found(elements_of(spec, **listed));
}

Result<std::optional<SetTable::SetPart>> NftSetTable::begin_list(const std::string& name) {
  // Its last listing has not come to its end.
  const bool again = name == disturbed_ && disturbances_ >= kMostDisturbances;
  if (name != disturbed_) disturbances_ = 0;
  disturbed_ = name;
  ++disturbances_;
  listing_.reset();
  const auto spec = spec_of(name);
  if (again || !spec) {
    disturbed_.clear();
    return SetTable::begin_list(name);
  }
  if (spec->kind == SetKind::nft_source_ranges) return begin_ranges(*spec);
  auto begun =
      table_.begin_elements(nft_table_of(spec->family), std::string(name_in_table(spec->name)));
  if (!begun && begun.error().kind == ErrorKind::busy) return SetTable::begin_list(name);
  if (!begun) return std::move(begun.error());
  if (!*begun) return std::optional<SetPart>{};
  SetPart part{{*spec, {}, elements_of(*spec, (*begun)->elements)}, (*begun)->last};
  if (part.last)
    disturbed_.clear();
  else
    listing_.emplace(Listing{.spec = *spec, .services = {}, .ranges = {}});
  return std::optional(std::move(part));
}

Result<SetTable::SetPart> NftSetTable::next_list() {
  if (!listing_) return listing_ended();
  if (listing_->spec.kind == SetKind::nft_source_ranges) return next_ranges();
  auto next = table_.next_elements();
  if (!next) {
    listing_.reset();
    return std::move(next.error());
  }
  SetPart part{{listing_->spec, {}, elements_of(listing_->spec, next->elements)}, next->last};
  if (part.last) {
    listing_.reset();
    disturbed_.clear();
  }
  return part;
}

Result<std::optional<SetTable::SetPart>> NftSetTable::begin_ranges(const SetSpec& spec) {
  auto services = intact_services(spec.family);
  if (!services) return std::move(services.error());
  if (!*services) return std::optional<SetPart>{};
  listing_.emplace(Listing{.spec = spec, .services = **std::move(services), .ranges = {}});
  auto part = next_ranges();
  if (!part) return std::move(part.error());
  return std::optional(*std::move(part));
}

Result<SetTable::SetPart> NftSetTable::next_ranges() {
  const auto family = listing_->spec.family;
  Ranges found;
  for (std::size_t i = 0; i < kServicesAPart && !listing_->services.empty(); ++i) {
    const auto service = listing_->services.back();
    listing_->services.pop_back();
    auto listed = table_.list_elements(nft_table_of(family), ranges_name(service));
    if (!listed) {
      listing_.reset();
      return std::move(listed.error());
    }
    if (!*listed) continue;
    if (const auto prefixes = prefixes_of(**listed, family))
      found[service] = {prefixes->begin(), prefixes->end()};
  }
  SetPart part{{listing_->spec, {}, elements_of(found)}, listing_->services.empty()};
  listing_->ranges.merge(found);
  if (part.last) {
    ranges_[family] = std::move(listing_->ranges);
    listing_.reset();
    disturbed_.clear();
  }
  return part;
}

// The virtual services whose source ranges packets meet; nullopt without their map.
Result<std::optional<std::vector<RestrictedService>>> NftSetTable::intact_services(Family family) {
  using Found = std::optional<std::vector<RestrictedService>>;
  const auto table = nft_table_of(family);
  const std::string map(name_in_table(restricted_map(family).name));
  auto frame = table_.list_frame(table);
  if (!frame) return std::move(frame.error());
  if (!*frame || !(*frame)->sets.contains(map)) return Found{};
  auto restricted = table_.list_elements(table, map);
  if (!restricted) return std::move(restricted.error());
  std::vector<RestrictedService> services;
  for (const auto& element : restricted->value_or(std::vector<netlink::NftElement>{}))
    if (const auto service = restricted_by(element); service && is_intact(**frame, *service))
      services.push_back(*service);
  return Found(std::move(services));
}

Result<std::optional<NftSetTable::Ranges>> NftSetTable::read_ranges(Family family) {
  auto services = intact_services(family);
  if (!services) return std::move(services.error());
  if (!*services) return std::optional<Ranges>{};
  Ranges ranges;
  for (const auto& service : **services) {
    auto listed = table_.list_elements(nft_table_of(family), ranges_name(service));
    if (!listed) return std::move(listed.error());
    if (!*listed) continue;
    if (const auto prefixes = prefixes_of(**listed, family))
      ranges[service] = {prefixes->begin(), prefixes->end()};
  }
  return std::optional(std::move(ranges));
}

std::vector<Status> NftSetTable::apply(const SetSpec& spec, std::span<const ElementOp> ops) {
  if (spec.kind == SetKind::nft_source_ranges) return apply_ranges(spec, ops);
  return apply_elements(spec, ops);
}

std::vector<Status> NftSetTable::apply_elements(const SetSpec& spec,
                                                std::span<const ElementOp> ops) {
  const auto table = nft_table_of(spec.family);
  const auto set = nft_set_of(spec).name;
  std::vector<Status> outcomes(ops.size());
  std::vector<NftUnit> units;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    auto element = nft_element_of(spec, ops[i].element);
    if (!element || (ops[i].add && spec.kind == SetKind::nft_services && !element->data)) {
      outcomes[i] = unfit(spec, ops[i].element);
      continue;
    }
    places.push_back(i);
    // Without its data an element is deleted whatever its data are.
    if (!ops[i].add) element->data.reset();
    if (ops[i].add)
      units.push_back({{NftAddElements{table, set, {*std::move(element)}}}});
    else
      units.push_back({{NftDeleteElements{table, set, {*std::move(element)}}}});
  }
  auto statuses = table_.apply(units);
  std::vector<NftUnit> replacements;
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const bool adds = ops[places[i]].add;
    if (!adds) statuses[i] = forgive_missing(std::move(statuses[i]));
    if (adds && !statuses[i] && statuses[i].error().kind == ErrorKind::already) {
      replacements.push_back(replacement_of(std::move(units[i])));
      replaced.push_back(places[i]);
    }
    outcomes[places[i]] = std::move(statuses[i]);
  }
  auto again = table_.apply(replacements);
  for (std::size_t i = 0; i < again.size(); ++i) outcomes[replaced[i]] = std::move(again[i]);
  return outcomes;
}

std::vector<Status> NftSetTable::apply_ranges(const SetSpec& spec, std::span<const ElementOp> ops) {
  // It would make an old reading known at its end.
  if (listing_ && listing_->spec == spec) listing_.reset();
  if (!ranges_.contains(spec.family)) {
    auto ranges = read_ranges(spec.family);
    if (!ranges) return std::vector<Status>(ops.size(), Status(ranges.error()));
    ranges_[spec.family] = ranges->value_or(Ranges{});
  }
  auto& known = ranges_[spec.family];
  std::vector<Status> outcomes(ops.size());
  std::map<RestrictedService, std::vector<std::size_t>> by_service;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto* element = std::get_if<IpPortNetElement>(&ops[i].element);
    if (element != nullptr && element->ip.family() == spec.family &&
        element->net.family() == spec.family)
      by_service[{element->ip, element->protocol, element->port}].push_back(i);
    else
      outcomes[i] = unfit(spec, ops[i].element);
  }
  bool is_certain = true;
  for (const auto& [service, places] : by_service) {
    if (!is_certain) {
      for (const auto i : places) outcomes[i] = netlink::not_sent();
      continue;
    }
    const auto& before = known[service];
    auto ranges = before;
    for (const auto i : places) {
      const auto& net = std::get<IpPortNetElement>(ops[i].element).net;
      if (ops[i].add)
        ranges.insert(net);
      else
        ranges.erase(net);
    }
    const auto status =
        ranges.empty() ? remove_ranges(service) : change_ranges(service, before, ranges);
    for (const auto i : places) outcomes[i] = status;
    if (status) known[service] = std::move(ranges);
    if (!status) is_certain = is_certain && !netlink::timed_out({&status, 1});
    if (known[service].empty()) known.erase(service);
  }
  if (!is_certain) ranges_.erase(spec.family);
  return outcomes;
}

Status NftSetTable::change_ranges(const RestrictedService& service,
                                  const std::set<IpPrefix>& before,
                                  const std::set<IpPrefix>& after) {
  if (!before.empty()) {
    auto step = step_between(service, before, after);
    if (step.ops.empty()) return {};
    auto status = commit(std::move(step));
    // After a refusal the kernel holds something else than we know of.
    if (status || netlink::timed_out({&status, 1})) return status;
  }
  return write_ranges(service, after);
}

Status NftSetTable::write_ranges(const RestrictedService& service,
                                 const std::set<IpPrefix>& ranges) {
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  const std::string map(name_in_table(restricted_map(service.address.family()).name));
  NftUnit unit{{NftAddSet{table, ranges_set_of(service)}, NftFlushSet{table, name},
                NftAddElements{table, name, intervals_of({ranges.begin(), ranges.end()})},
                NftAddChain{table, {.name = name, .base = {}}}, NftFlushChain{table, name}}};
  for (auto& rule : rules_of_ranges(service))
    unit.ops.emplace_back(NftAddRule{table, std::move(rule)});
  auto element = restricted_element_of(service);
  unit.ops.emplace_back(NftAddElements{table, map, {element}});
  auto status = commit(unit);
  if (status || status.error().kind != ErrorKind::already) return status;
  // The map sends its packets somewhere else.
  element.data.reset();
  unit.ops.insert(unit.ops.end() - 1, NftDeleteElements{table, map, {std::move(element)}});
  return commit(std::move(unit));
}

Status NftSetTable::remove_ranges(const RestrictedService& service) {
  const auto table = nft_table_of(service.address.family());
  const auto name = ranges_name(service);
  const std::string map(name_in_table(restricted_map(service.address.family()).name));
  auto element = restricted_element_of(service);
  element.data.reset();
  const NftDeleteElements leave{table, map, {std::move(element)}};
  auto status = commit({{leave, NftDeleteChain{table, name}, NftDeleteSet{table, name}}});
  if (status || status.error().kind != ErrorKind::missing) return status;
  // Some of it is gone already.
  if (auto left = forgive_missing(commit({{leave}})); !left) return left;
  if (auto chain = forgive_missing(commit({{NftDeleteChain{table, name}}})); !chain) return chain;
  return forgive_missing(commit({{NftDeleteSet{table, name}}}));
}

Status NftSetTable::destroy(const std::string& name) {
  const auto spec = spec_of(name);
  if (!spec) return {};
  const auto table = nft_table_of(spec->family);
  if (spec->kind == SetKind::nft_source_ranges) {
    auto ranges = read_ranges(spec->family);
    if (!ranges) return std::move(ranges.error());
    for (const auto& [service, prefixes] : ranges->value_or(Ranges{}))
      if (auto removed = remove_ranges(service); !removed) return removed;
    ranges_.erase(spec->family);
  }
  return forgive_missing(commit({{NftDeleteSet{table, nft_set_of(*spec).name}}}));
}

}  // namespace ipvsproxier::ipset
