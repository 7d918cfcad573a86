#include "ipset/nftables/nft_set_table.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "ipset/nftables/nft_set_changes.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::ErrorKind;
using netlink::NftAddChain;
using netlink::NftAddSet;
using netlink::NftAddTable;
using netlink::NftDeleteSet;
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

// A removal of what is not there has nothing to do.
Status forgive_missing(Status status) {
  if (!status && status.error().kind == ErrorKind::missing) return {};
  return status;
}

// Keys that are none of ours are left out.
std::vector<Element> elements_of(const SetSpec& spec, std::span<const netlink::NftElement> listed) {
  std::vector<Element> elements;
  for (const auto& one : listed)
    if (auto element = element_of(spec, one)) elements.push_back(*element);
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
  if (claim_of(*frame, spec.family) == TableClaim::foreign) return foreign_table(spec.family);
  const auto wanted = nft_set_of(spec);
  NftUnit unit{{NftAddTable{table}}};
  if (*frame) {
    const auto has = (*frame)->sets.find(wanted.name);
    if (has != (*frame)->sets.end()) {
      if (has->second.spec == wanted) return {};
      std::ranges::move(removal_of_lookups(table, **frame, wanted.name),
                        std::back_inserter(unit.ops));
      unit.ops.emplace_back(NftDeleteSet{table, wanted.name});
    }
  }
  unit.ops.emplace_back(NftAddSet{table, wanted});
  // The chains to which its elements will lead; their rules come with the others.
  if (spec.kind == SetKind::nft_services)
    for (const auto verdict : kServiceVerdicts)
      unit.ops.emplace_back(
          NftAddChain{table, {.name = std::string(chain_of(verdict)), .base = {}}});
  return commit(std::move(unit));
}

// Whether there is a set of this name and type.
Result<bool> NftSetTable::is_there(const SetSpec& spec) {
  const auto wanted = nft_set_of(spec);
  auto found = table_.find_set(nft_table_of(spec.family), wanted.name);
  if (!found) return std::move(found.error());
  return *found == wanted;
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
  const auto there = is_there(spec);
  if (!there) return there.error();
  if (!*there) return Found{};
  if (spec.kind == SetKind::nft_source_ranges) return ranges_.read_all(spec.family);
  auto listed =
      table_.list_elements(nft_table_of(spec.family), std::string(name_in_table(spec.name)));
  if (!listed) return std::move(listed.error());
  if (!*listed) return Found{};
  return Found(elements_of(spec, **listed));
}

Result<std::optional<SetTable::SetPart>> NftSetTable::begin_list(const std::string& name) {
  listing_.reset();
  const auto spec = spec_of(name);
  // Its last listings have not come to their ends.
  const bool again = ++unended_[name] > kMostDisturbances;
  if (again || !spec) {
    unended_.erase(name);
    return SetTable::begin_list(name);
  }
  const auto there = is_there(*spec);
  if (!there) return there.error();
  if (!*there) return std::optional<SetPart>{};
  if (spec->kind == SetKind::nft_source_ranges) return begin_ranges(*spec);
  auto begun =
      table_.begin_elements(nft_table_of(spec->family), std::string(name_in_table(spec->name)));
  if (!begun && begun.error().kind == ErrorKind::busy) return SetTable::begin_list(name);
  if (!begun) return std::move(begun.error());
  if (!*begun) return std::optional<SetPart>{};
  SetPart part{{*spec, {}, elements_of(*spec, (*begun)->elements)}, (*begun)->last};
  if (part.last)
    unended_.erase(name);
  else
    listing_.emplace(Listing{.spec = *spec, .services = {}});
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
    unended_.erase(listing_->spec.name);
    listing_.reset();
  }
  return part;
}

Result<std::optional<SetTable::SetPart>> NftSetTable::begin_ranges(const SetSpec& spec) {
  auto services = ranges_.services(spec.family);
  if (!services) return std::move(services.error());
  if (!*services) return std::optional<SetPart>{};
  listing_.emplace(Listing{.spec = spec, .services = **std::move(services)});
  auto part = next_ranges();
  if (!part) return std::move(part.error());
  return std::optional(*std::move(part));
}

Result<SetTable::SetPart> NftSetTable::next_ranges() {
  std::vector<Element> found;
  for (std::size_t i = 0; i < kServicesAPart && !listing_->services.empty(); ++i) {
    const auto [service, rules] = std::move(listing_->services.back());
    listing_->services.pop_back();
    auto own = ranges_.read(service, rules);
    if (!own) {
      listing_.reset();
      return std::move(own.error());
    }
    if (*own) found.emplace_back(**std::move(own));
  }
  SetPart part{{listing_->spec, {}, std::move(found)}, listing_->services.empty()};
  if (part.last) {
    unended_.erase(listing_->spec.name);
    listing_.reset();
  }
  return part;
}

std::vector<Status> NftSetTable::apply(const SetSpec& spec, std::span<const ElementOp> ops) {
  const SetOps change{.spec = spec, .ops = ops};
  return apply_all({&change, 1}).front();
}

std::vector<std::vector<Status>> NftSetTable::apply_all(std::span<const SetOps> changes) {
  NftSetChanges all(table_, ranges_);
  for (const auto& change : changes) all.add(change);
  return all.apply();
}

Status NftSetTable::destroy(const std::string& name) {
  const auto spec = spec_of(name);
  if (!spec) return {};
  const auto table = nft_table_of(spec->family);
  if (spec->kind == SetKind::nft_source_ranges) {
    const auto elements = ranges_.read_all(spec->family);
    if (!elements) return elements.error();
    for (const auto& element : elements->value_or(std::vector<Element>{}))
      if (auto removed = ranges_.remove(restricted_by(std::get<RangesElement>(element))); !removed)
        return removed;
  }
  return forgive_missing(commit({{NftDeleteSet{table, nft_set_of(*spec).name}}}));
}

}  // namespace ipvsproxier::ipset
