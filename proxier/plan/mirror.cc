#include "proxier/plan/mirror.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace ipvsproxier::plan {

void Mirror::read_anew(const Reading& reading) {
  *this = {};
  reading(state_);
}

void Mirror::settle() {
  added_services_.clear();
  added_bindings_.clear();
  removed_elements_.clear();
  state_.remembered.clear();
}

void Mirror::assume_lost(const DesiredState& desired) {
  std::erase_if(added_services_, [&](const netlink::VirtualServiceKey& key) {
    if (desired.services.contains(key) || !state_.services) return false;
    state_.services->try_emplace(key,
                                 ActualService{.service = {.key = key}, .servers = std::nullopt});
    return true;
  });
  std::erase_if(added_bindings_, [&](const Binding& binding) {
    if (desired.addresses.contains(binding.address) || !state_.addresses) return false;
    state_.addresses->insert(binding);
    return true;
  });
  std::erase_if(removed_elements_, [&](const Removed& removed) {
    const auto& [key, element] = removed;
    const auto wanted = desired.sets.find(key);
    if (wanted == desired.sets.end() || !wanted->second.contains(element)) return false;
    const auto has = state_.sets.find(key);
    if (has != state_.sets.end() && has->second) has->second->erase(element);
    return true;
  });
}

AddressSet Mirror::bound_otherwise(const ActualState& found) const {
  std::vector<Binding> moved;
  std::set_symmetric_difference(found.addresses->begin(), found.addresses->end(),
                                state_.addresses->begin(), state_.addresses->end(),
                                std::back_inserter(moved));
  std::vector<netlink::IpAddress> refixed;
  std::set_symmetric_difference(found.fixed_addresses.begin(), found.fixed_addresses.end(),
                                state_.fixed_addresses.begin(), state_.fixed_addresses.end(),
                                std::back_inserter(refixed));
  AddressSet addresses;
  for (const auto& binding : moved) addresses.insert(binding.address);
  addresses.insert(refixed.begin(), refixed.end());
  return addresses;
}

}  // namespace ipvsproxier::plan
