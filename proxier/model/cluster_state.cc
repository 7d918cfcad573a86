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
  const bool annotated = now && !now->annotations.empty();
  if (!now) {
    if (it == services.end()) return;
    services.erase(it);
  } else if (it == services.end()) {
    services.emplace(name, *std::move(now));
  } else {
    if (it->second == *now) return;
    it->second = *std::move(now);
  }
  settings_.erase(name);
  if (annotated) settings_.emplace(name, parse_settings(services.at(name)));
  touched.services.insert(name);
}

const ParsedSettings& ClusterState::settings_of(const api::NamespacedName& service) const {
  static const ParsedSettings none;
  const auto it = settings_.find(service);
  return it == settings_.end() ? none : it->second;
}

// Controllers name a slice after its Service, so most slices need no entry in oddly_named_.
std::optional<api::NamespacedName> ClusterState::service_of(
    const api::NamespacedName& slice) const {
  if (const auto odd = oddly_named_.find(slice); odd != oddly_named_.end())
    return api::NamespacedName{slice.ns, odd->second};
  for (auto end = slice.name.rfind('-'); end != std::string::npos && end != 0;
       end = slice.name.rfind('-', end - 1)) {
    api::NamespacedName service{slice.ns, slice.name.substr(0, end)};
    const auto it = slices.find(service);
    if (it != slices.end() && it->second.contains(slice.name)) return service;
  }
  return std::nullopt;
}

void ClusterState::take_slice(const api::NamespacedName& name,
                              std::optional<api::EndpointSlice> now, Touched& touched) {
  // An EndpointSlice may move to another Service by a change of its label.
  const auto before = service_of(name);
  if (before && (!now || now->service != before->name)) {
    if (const auto it = slices.find(*before); it != slices.end()) {
      it->second.erase(name.name);
      if (it->second.empty()) slices.erase(it);
    }
    touched.services.insert(*before);
    oddly_named_.erase(name);
  }
  if (!now || now->service.empty()) return;
  const api::NamespacedName service{name.ns, now->service};
  if (!name.name.starts_with(now->service + "-")) oddly_named_.insert_or_assign(name, now->service);
  auto& list = slices[service];
  const auto known = list.find(name.name);
  if (known != list.end() && *known == *now) return;
  touched.services.insert(service);
  if (now->trigger.time) touched.triggers.push_back({service, now->family, *now->trigger.time});
  list.insert_or_assign(*std::move(now));
}

Touched ClusterState::take(Changes changes) {
  Touched touched;
  for (auto& [name, service] : changes.services) take_service(name, std::move(service), touched);
  for (auto& [name, slice] : changes.slices) take_slice(name, std::move(slice), touched);
  if (changes.node && *changes.node != node) {
    node = std::move(*changes.node);
    touched.node = true;
  }
  for (auto& [key, why] : changes.unreadable) {
    if (why)
      unreadable.insert_or_assign(key, *std::move(why));
    else
      unreadable.erase(key);
  }
  if (changes.complete) complete = *changes.complete;
  return touched;
}

bool ClusterState::knows(const api::ObjectKey& key) const {
  switch (key.kind) {
    case api::ObjectKind::service:
      return services.contains(key.name);
    case api::ObjectKind::endpoint_slice:
      return service_of(key.name).has_value();
    case api::ObjectKind::node:
      return node && node->name == key.name.name;
  }
  return false;
}

}  // namespace ipvsproxier::model
