#include "proxier/sync/mirror.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace ipvsproxier::sync {

void Mirror::read_anew(const Reading& reading) {
  *this = {};
  reading(state_);
}

void Mirror::settle() {
  added_services_.clear();
  added_bindings_.clear();
  removed_elements_.clear();
}

void Mirror::assume_lost(const plan::DesiredState& desired) {
  std::erase_if(added_services_, [&](const netlink::VirtualServiceKey& key) {
    if (desired.services.contains(key) || !state_.services) return false;
    state_.services->try_emplace(
        key, plan::ActualService{.service = {.key = key}, .servers = std::nullopt});
    return true;
  });
  std::erase_if(added_bindings_, [&](const plan::Binding& binding) {
    if (desired.addresses.contains(binding.address) || !state_.addresses) return false;
    state_.addresses->insert(binding);
    return true;
  });
  std::erase_if(removed_elements_, [&](const SetElement& removed) {
    const auto& [key, element] = removed;
    const auto wanted = desired.sets.find(key);
    if (wanted == desired.sets.end() || !wanted->second.contains(element)) return false;
    const auto has = state_.sets.find(key);
    if (has != state_.sets.end() && has->second) has->second->erase(element);
    return true;
  });
}

plan::AddressSet Mirror::bound_otherwise(const plan::ActualState& found) const {
  std::vector<plan::Binding> moved;
  std::set_symmetric_difference(found.addresses->begin(), found.addresses->end(),
                                state_.addresses->begin(), state_.addresses->end(),
                                std::back_inserter(moved));
  std::vector<netlink::IpAddress> refixed;
  std::set_symmetric_difference(found.fixed_addresses.begin(), found.fixed_addresses.end(),
                                state_.fixed_addresses.begin(), state_.fixed_addresses.end(),
                                std::back_inserter(refixed));
  plan::AddressSet addresses;
  for (const auto& binding : moved) addresses.insert(binding.address);
  addresses.insert(refixed.begin(), refixed.end());
  return addresses;
}

}  // namespace ipvsproxier::sync
