#include "proxier/plan/leftovers.h"

namespace ipvsproxier::plan {

namespace {

// The set that names endpoints.
bool names_endpoints(const SetKey& set) {
  return set.id == ipset::SetId::loop_back;
}

bool may_own_servers(const Doubt& doubt, const api::NamespacedName* owner) {
  return doubt.slices || (owner != nullptr && doubt.namespaces.contains(owner->ns));
}

}  // namespace

void add_leftover_services(const DesiredState& desired,
                           const std::map<netlink::VirtualServiceKey, ActualService>& services,
                           const Doubt& doubt, const OwnerOf& owner_of, Leftovers& leftovers) {
  for (const auto& [key, actual] : services) {
    const auto planned = desired.services.find(key);
    if (planned == desired.services.end()) {
      if (doubt.services) leftovers.services.insert(key);
      continue;
    }
    if (!actual.servers || !doubt.about_slices() || !may_own_servers(doubt, owner_of(key)))
      continue;
    // One of weight 0 was on its way out.
    for (const auto& server : *actual.servers)
      if (server.weight != 0 && !planned->second.servers.contains(server.key))
        leftovers.servers.emplace(key, server.key);
  }
}

void add_leftover_addresses(const DesiredState& desired, const Bindings& addresses,
                            const Doubt& doubt, Leftovers& leftovers) {
  if (!doubt.services) return;
  for (const auto& binding : addresses)
    if (!desired.addresses.contains(binding.address)) leftovers.addresses.insert(binding.address);
}

void add_leftover_elements(const DesiredState& desired, const SetKey& set,
                           const ipset::ElementSet& elements, const Doubt& doubt,
                           Leftovers& leftovers) {
  const auto wanted = desired.sets.find(set);
  if (wanted == desired.sets.end()) return;
  if (!doubt.services && !(doubt.about_slices() && names_endpoints(set))) return;
  for (const auto& element : elements)
    if (!wanted->second.contains(element)) leftovers.elements[set].insert(element);
}

void narrow(const Doubt& doubt, Leftovers& leftovers) {
  if (!doubt.about_slices()) leftovers.servers.clear();
  if (doubt.services) return;
  leftovers.services.clear();
  leftovers.addresses.clear();
  std::erase_if(leftovers.elements, [&](const auto& entry) {
    return !doubt.about_slices() || !names_endpoints(entry.first);
  });
}

void forget_leftovers(const Scope& asked, DesiredState& desired) {
  auto& leftovers = desired.leftovers;
  if (leftovers.empty()) return;
  for (const auto& key : asked.services) {
    const auto planned = desired.services.find(key);
    if (planned == desired.services.end()) continue;
    leftovers.services.erase(key);
    for (const auto& server : planned->second.servers) leftovers.servers.erase({key, server});
  }
  for (const auto& address : asked.addresses)
    if (desired.addresses.contains(address)) leftovers.addresses.erase(address);
  for (const auto& [set, elements] : asked.elements) {
    const auto left = leftovers.elements.find(set);
    const auto wanted = desired.sets.find(set);
    if (left == leftovers.elements.end() || wanted == desired.sets.end()) continue;
    for (const auto& element : elements)
      if (wanted->second.contains(element)) left->second.erase(element);
    if (left->second.empty()) leftovers.elements.erase(left);
  }
}

}  // namespace ipvsproxier::plan
