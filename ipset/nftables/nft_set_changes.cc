#include "ipset/nftables/nft_set_changes.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ipset/nftables/nft_set_elements.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::NftAddElements;
using netlink::NftDeleteElements;
using netlink::NftUnit;

Error unfit(const SetSpec& spec, const Element& element) {
  return {ErrorKind::malformed, 0,
          fmt::format("{}: not an element of {}", to_string(element), spec.name)};
}

// With the chain to which the element leads.
NftUnit addition_of(const Element& element, NftAddElements addition) {
  NftUnit unit;
  if (const auto chain = own_chain_of(element)) append_chain(*chain, unit);
  unit.ops.emplace_back(std::move(addition));
  return unit;
}

// The addition of an element whose key has other data.
NftUnit replacement_of(const Element& element, NftUnit addition) {
  auto old = std::get<NftAddElements>(addition.ops.back());
  for (auto& one : old.elements) one.data.reset();
  addition.ops.insert(addition.ops.begin(), NftDeleteElements{old.table, old.set, old.elements});
  const auto* service = std::get_if<ServiceElement>(&element);
  if (service == nullptr || !service->restricted) return addition;
  for (const auto& chain : chains_of({service->ip, service->protocol, service->port}))
    if (to_string(chain) != chain_of(*service)) append_removal(chain, addition);
  return addition;
}

}  // namespace

void NftSetChanges::add(const SetTable::SetOps& change) {
  auto& outcomes = outcomes_.emplace_back(change.ops.size());
  if (change.spec.kind == SetKind::nft_source_ranges)
    add_ranges(change, outcomes);
  else
    add_elements(change, outcomes);
}

void NftSetChanges::add_elements(const SetTable::SetOps& change, std::vector<Status>& outcomes) {
  const auto& [spec, ops, has] = change;
  const auto table = nft_table_of(spec.family);
  const auto set = nft_set_of(spec).name;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    auto element = nft_element_of(spec, ops[i].element);
    if (!element || (ops[i].add && spec.kind == SetKind::nft_services && !element->data)) {
      outcomes[i] = unfit(spec, ops[i].element);
      continue;
    }
    // Without its data an element is deleted whatever its data are.
    if (!ops[i].add) element->data.reset();
    if (ops[i].add)
      units_.push_back(addition_of(ops[i].element, {table, set, {*std::move(element)}}));
    else
      units_.push_back({{NftDeleteElements{table, set, {*std::move(element)}}}});
    steps_.push_back({outcomes_.size() - 1, i, ops[i].add, &ops[i].element});
  }
}

void NftSetChanges::add_ranges(const SetTable::SetOps& change, std::vector<Status>& outcomes) {
  const auto& [spec, ops, has] = change;
  const auto is_of_family = [family = spec.family](const netlink::IpPrefix& range) {
    return range.family() == family;
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto* ranges = std::get_if<RangesElement>(&ops[i].element);
    if (ranges == nullptr || ranges->ranges.empty() || ranges->ip.family() != spec.family ||
        !std::ranges::all_of(ranges->ranges, is_of_family)) {
      outcomes[i] = unfit(spec, ops[i].element);
      continue;
    }
    if (ops[i].add) {
      const auto known = has != nullptr ? has->replaced_by(*ranges) : std::vector<Element>{};
      const auto* before = known.empty() ? nullptr : std::get_if<RangesElement>(&known.front());
      if (has != nullptr && has->contains(*ranges)) before = ranges;
      units_.push_back(NftSourceRanges::change(before, *ranges));
    } else {
      units_.push_back(NftSourceRanges::removal(restricted_by(*ranges)));
    }
    steps_.push_back({outcomes_.size() - 1, i, ops[i].add, &ops[i].element});
  }
}

// The kernel holds something else than the caller knew.
Status NftSetChanges::write_again(const Step& step, const RangesElement& ranges) {
  return step.adds ? ranges_.write(ranges) : ranges_.remove(restricted_by(ranges));
}

std::vector<std::vector<Status>> NftSetChanges::apply() {
  auto statuses = table_.apply(units_);
  bool silent = netlink::timed_out(statuses);
  std::vector<NftUnit> replacements;
  std::vector<const Step*> replaced;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const auto& step = steps_[i];
    auto status = std::move(statuses[i]);
    if (const auto* ranges = std::get_if<RangesElement>(step.element)) {
      // Where answers stay away a second attempt would wait as long again.
      if (!status && !silent && !is_lost(status)) status = write_again(step, *ranges);
      silent = silent || (!status && netlink::timed_out({&status, 1}));
    } else if (!status && step.adds && status.error().kind == ErrorKind::already) {
      replacements.push_back(replacement_of(*step.element, std::move(units_[i])));
      replaced.push_back(&step);
    } else if (!status && !step.adds && status.error().kind == ErrorKind::missing) {
      // A removal of what is not there has nothing to do.
      status = {};
    }
    settle(step, std::move(status));
  }
  if (silent) return std::move(outcomes_);
  auto again = table_.apply(replacements);
  for (std::size_t i = 0; i < again.size(); ++i) settle(*replaced[i], std::move(again[i]));
  return std::move(outcomes_);
}

}  // namespace ipvsproxier::ipset
