#include "proxier/model/cluster_state.h"

#include <utility>

namespace ipvsproxier::model {

void ClusterState::put(api::Object object) {
  Changes changes;
  changes.put(std::move(object));
  take(std::move(changes));
}

void ClusterState::take_service(const api::NamespacedName& name, std::optional<api::Service> now,
                                Touched& touched) {
  const auto it = services.find(name);
  if (!now) {
    if (it == services.end()) return;
    services.erase(it);
  } else if (it == services.end()) {
    services.emplace(name, *std::move(now));
  } else {
    if (it->second == *now) return;
    it->second = *std::move(now);
  }
  touched.services.insert(name);
}

void ClusterState::take_slice(const api::NamespacedName& name,
                              std::optional<api::EndpointSlice> now, Touched& touched) {
  // A slice may change its Service, by its label.
  const auto owner = service_of_slice_.find(name);
  if (owner != service_of_slice_.end() && (!now || now->service != owner->second)) {
    const api::NamespacedName before{name.ns, owner->second};
    if (const auto it = slices.find(before); it != slices.end()) {
      it->second.erase(name.name);
      if (it->second.empty()) slices.erase(it);
    }
    touched.services.insert(before);
    service_of_slice_.erase(owner);
  }
  if (!now || now->service.empty()) return;
  const api::NamespacedName service{name.ns, now->service};
  service_of_slice_.insert_or_assign(name, now->service);
  const auto [it, added] = slices[service].try_emplace(name.name);
  if (!added && it->second == *now) return;
  it->second = *std::move(now);
  touched.services.insert(service);
  const auto& slice = it->second;
  if (slice.trigger.time) touched.triggers.push_back({service, slice.family, *slice.trigger.time});
}

Touched ClusterState::take(Changes changes) {
  Touched touched;
  for (auto& [name, service] : changes.services) take_service(name, std::move(service), touched);
  for (auto& [name, slice] : changes.slices) take_slice(name, std::move(slice), touched);
  if (changes.node && *changes.node != node) {
    node = std::move(*changes.node);
    touched.node = true;
  }
  if (changes.complete) complete = *changes.complete;
  return touched;
}

}  // namespace ipvsproxier::model
