#include "proxier/sync/holding.h"

#include <cstddef>
#include <utility>

namespace ipvsproxier::sync {

void Holding::begin(const model::ClusterState& cluster) {
  for (const auto& [key, why] : cluster.unreadable)
    if (!cluster.knows(key)) unread_.insert(key);
}

plan::Doubt Holding::doubt() const {
  plan::Doubt doubt;
  for (const auto& key : unread_) {
    if (key.kind != api::ObjectKind::endpoint_slice)
      doubt.services = true;
    else if (key.name.name.empty())
      doubt.slices = true;
    else
      doubt.namespaces.insert(key.name.ns);
  }
  return doubt;
}

void Holding::note(const plan::ActualState& kernel, plan::Planner& planner) {
  if (unread_.empty()) return;
  const auto doubt = this->doubt();
  auto& leftovers = planner.leftovers();
  const auto& desired = planner.desired();
  if (kernel.services && !std::exchange(noted_services_, true)) {
    add_leftover_services(
        desired, *kernel.services, doubt,
        [&planner](const auto& service) { return planner.owner_of(service); }, leftovers);
    logger_.warn(
        "objects that cannot be read: {}; {} virtual services and {} real servers that no other "
        "asks "
        "for stay as they are until then, with their addresses and elements",
        unread_.size(), leftovers.services.size(), leftovers.servers.size());
  }
  if (kernel.addresses && !std::exchange(noted_addresses_, true))
    add_leftover_addresses(desired, *kernel.addresses, doubt, leftovers);
  for (const auto& [set, elements] : kernel.sets)
    if (noted_sets_.insert(set).second && elements)
      add_leftover_elements(desired, set, *elements, doubt, leftovers);
}

bool Holding::take(const model::Changes& changes, plan::Planner& planner) {
  if (unread_.empty()) return false;
  std::size_t told = 0;
  for (const auto& [key, why] : changes.unreadable)
    if (!why) told += unread_.erase(key);
  if (told == 0) return false;
  narrow(doubt(), planner.leftovers());
  return true;
}

}  // namespace ipvsproxier::sync
