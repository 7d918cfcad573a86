#include "ipset/nftables/nft_set_changes.h"

#include <map>
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
  const auto& [spec, ops] = change;
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
    steps_.push_back({.change = outcomes_.size() - 1,
                      .ops = {i},
                      .adds = ops[i].add,
                      .element = &ops[i].element});
  }
}

void NftSetChanges::add_ranges(const SetTable::SetOps& change, std::vector<Status>& outcomes) {
  const auto& [spec, ops] = change;
  const auto known = ranges_.known(spec.family);
  if (!known) {
    outcomes.assign(ops.size(), Status(known.error()));
    return;
  }
  std::map<RestrictedService, std::vector<std::size_t>> by_service;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto* element = std::get_if<IpPortNetElement>(&ops[i].element);
    if (element != nullptr && element->ip.family() == spec.family &&
        element->net.family() == spec.family)
      by_service[{element->ip, element->protocol, element->port}].push_back(i);
    else
      outcomes[i] = unfit(spec, ops[i].element);
  }
  for (auto& [service, places] : by_service) {
    const auto found = (*known)->find(service);
    const auto before = found == (*known)->end() ? std::set<netlink::IpPrefix>{} : found->second;
    auto after = before;
    for (const auto i : places) {
      const auto& net = std::get<IpPortNetElement>(ops[i].element).net;
      if (ops[i].add)
        after.insert(net);
      else
        after.erase(net);
    }
    units_.push_back(NftSourceRanges::change(service, before, after));
    steps_.push_back({.change = outcomes_.size() - 1,
                      .ops = std::move(places),
                      .restricted = service,
                      .ranges = std::move(after)});
  }
}

void NftSetChanges::settle(const Step& step, const Status& status) {
  for (const auto op : step.ops) outcomes_[step.change][op] = status;
}

std::vector<std::vector<Status>> NftSetChanges::apply() {
  auto statuses = table_.apply(units_);
  bool silent = netlink::timed_out(statuses);
  std::vector<NftUnit> replacements;
  std::vector<const Step*> replaced;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const auto& step = steps_[i];
    auto status = std::move(statuses[i]);
    if (step.restricted) {
      // Where answers stay away a second attempt would wait as long again.
      if (!status && silent)
        ranges_.forget(step.restricted->address.family());
      else
        status = ranges_.settle(*step.restricted, step.ranges, std::move(status));
      silent = silent || (!status && netlink::timed_out({&status, 1}));
    } else if (!status && step.adds && status.error().kind == ErrorKind::already) {
      replacements.push_back(replacement_of(*step.element, std::move(units_[i])));
      replaced.push_back(&step);
    } else if (!status && !step.adds && status.error().kind == ErrorKind::missing) {
      // A removal of what is not there has nothing to do.
      status = {};
    }
    settle(step, status);
  }
  if (silent) return std::move(outcomes_);
  const auto again = table_.apply(replacements);
  for (std::size_t i = 0; i < again.size(); ++i) settle(*replaced[i], again[i]);
  return std::move(outcomes_);
}

}  // namespace ipvsproxier::ipset
