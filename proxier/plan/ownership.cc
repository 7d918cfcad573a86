#include "proxier/plan/ownership.h"

#include <algorithm>

#include "proxier/plan/guarded.h"

namespace ipvsproxier::plan {

namespace {

using netlink::Family;
using netlink::VirtualServiceKey;

bool is_cluster_ip(const netlink::IpAddress& address, const DesiredState& desired) {
  for (auto it = desired.services.lower_bound({address});
       it != desired.services.end() && it->first.address == address; ++it)
    if (it->second.facet == Facet::cluster_ip) return true;
  return false;
}

bool has_elements(const VirtualServiceKey& key, const DesiredState& desired,
                  const ActualState& actual) {
  const auto family = key.address.family();
  const SetKey vips{family, ipset::vip_set(desired.packet_filter)};
  if (has_element(actual, vips, ipset::IpElement{key.address})) return true;
  const auto all = elements_of(key);
  return std::any_of(all.begin(), all.end(), [&](const auto& one) {
    return has_element(actual, {family, one.first}, one.second);
  });
}

bool is_inherited(const VirtualServiceKey& key, const DesiredState& desired) {
  if (desired.inherited.empty()) return false;
  const auto planned = desired.services.find(key);
  return desired.inherited.contains(key.address) ||
         (planned != desired.services.end() && planned->second.facet == Facet::node_port);
}

}  // namespace

bool knows_sets(Family family, const DesiredState& desired, const ActualState& actual) {
  return std::ranges::all_of(ipset::sets_of(desired.packet_filter), [&](ipset::SetId id) {
    if (actual.sets.contains({family, id})) return true;
    const auto wanted = desired.sets.find({family, id});
    return ipset::is_made_late(id) && wanted != desired.sets.end() && wanted->second.empty();
  });
}

bool has_element(const ActualState& actual, SetKey set, const ipset::Element& element) {
  const auto found = actual.sets.find(set);
  return found != actual.sets.end() && found->second && found->second->contains(element);
}

bool belongs_to_ours(SetKey set, const ipset::Element& element, const DesiredState& desired,
                     const ActualState& actual) {
  const auto guarded = guarded_by(set.id, element);
  const auto& known = actual.remembered;
  if (guarded.port)
    return std::ranges::any_of(known, [&](const auto& key) { return key.port == *guarded.port; });
  const auto address = guarded.service ? guarded.service->address : guarded.address;
  if (!address) return true;
  const auto first = known.lower_bound({*address});
  return (first != known.end() && first->address == *address) || is_cluster_ip(*address, desired);
}

Ownership owner_of(const VirtualServiceKey& key, const DesiredState& desired,
                   const ActualState& actual) {
  if (!desired.keep_foreign_services || actual.remembered.contains(key) ||
      (actual.services && actual.services->contains(key)))
    return Ownership::ours;
  const auto family = key.address.family();
  if (!desired.rules.contains(family)) return Ownership::foreign;
  if (is_inherited(key, desired)) return Ownership::ours;
  // Once foreign, it stays so, whatever of ours comes near it.
  if (actual.foreign.contains(key) && !is_cluster_ip(key.address, desired))
    return Ownership::foreign;
  if ((actual.addresses && actual.addresses->contains(key.address)) ||
      is_cluster_ip(key.address, desired) || has_elements(key, desired, actual))
    return Ownership::ours;
  return knows_sets(family, desired, actual) ? Ownership::foreign : Ownership::unknown;
}

std::set<VirtualServiceKey> foreign_among(const std::set<VirtualServiceKey>& existing,
                                          const Transaction& transaction,
                                          const DesiredState& desired, ActualState actual) {
  for (const auto& phase : transaction.phases) {
    if (const auto* changes = std::get_if<std::vector<SetChange>>(&phase.work))
      for (const auto& change : *changes)
        for (const auto& op : change.ops)
          if (op.add) actual.commit(change.set, {.add = false, .element = op.element});
    if (const auto* bindings = std::get_if<std::vector<BindingOp>>(&phase.work))
      for (const auto& op : *bindings)
        if (op.add) actual.commit(BindingOp{.add = false, .binding = op.binding});
  }
  std::set<VirtualServiceKey> foreign;
  for (const auto& key : existing)
    if (owner_of(key, desired, actual) == Ownership::foreign) foreign.insert(key);
  return foreign;
}

const VirtualServiceKey* Foreign::refuses(const VirtualServiceKey& key, Facet facet,
                                          bool alone) const {
  if (facet == Facet::cluster_ip) return nullptr;
  if (alone) {
    const auto same = keys.find(key);
    return same == keys.end() ? nullptr : &*same;
  }
  if (facet == Facet::node_port) {
    const auto found = ports.find({key.protocol, key.port});
    return found == ports.end() ? nullptr : &found->second;
  }
  const auto found = addresses.find(key.address);
  return found == addresses.end() ? nullptr : &found->second;
}

}  // namespace ipvsproxier::plan
