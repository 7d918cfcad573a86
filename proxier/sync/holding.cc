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

// Real servers of some may become known later than their virtual service.
void Holding::note_services(const Services& services, const plan::Doubt& doubt,
                            plan::Planner& planner) {
  auto& leftovers = planner.leftovers();
  if (!noted_services_) {
    noted_services_ = true;
    add_leftover_services(planner.desired(), services, doubt, leftovers);
    for (const auto& [key, service] : services) unlisted_.insert(key);
  }
  if (unlisted_.empty()) return;
  const auto owner_of = [&planner](const auto& key) { return planner.owner_of(key); };
  std::erase_if(unlisted_, [&](const auto& key) {
    const auto it = services.find(key);
    if (it != services.end() && !it->second.servers) return false;
    if (it != services.end() && doubt.about_slices())
      add_leftover_servers(planner.desired(), key, *it->second.servers, doubt, owner_of, leftovers);
    return true;
  });
  if (!unlisted_.empty()) return;
  logger_.warn(
      "objects that cannot be read: {}; {} virtual services and {} real servers that no other asks "
      "for stay as they are until then, with their addresses and elements",
      unread_.size(), leftovers.services.size(), leftovers.servers.size());
}

void Holding::note(const plan::ActualState& kernel, plan::Planner& planner) {
  if (unread_.empty()) return;
  const auto doubt = this->doubt();
  if (kernel.services) note_services(*kernel.services, doubt, planner);
  if (kernel.addresses && !std::exchange(noted_addresses_, true))
    add_leftover_addresses(planner.desired(), *kernel.addresses, doubt, planner.leftovers());
  for (const auto& [set, elements] : kernel.sets)
    if (noted_sets_.insert(set).second && elements)
      add_leftover_elements(planner.desired(), set, *elements, doubt, planner.leftovers());
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
