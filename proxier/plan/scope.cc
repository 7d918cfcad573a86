#include "proxier/plan/scope.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "proxier/plan/guarded.h"
#include "proxier/plan/in_cluster.h"

namespace ipvsproxier::plan {

bool Scope::empty() const {
  const auto none = [](const auto& entry) { return entry.second.empty(); };
  return services.empty() && addresses.empty() && rules.empty() &&
         std::all_of(elements.begin(), elements.end(), none);
}

void Scope::merge(const Scope& other) {
  services.merge(other.services);
  addresses.merge(other.addresses);
  for (const auto& [key, some] : other.elements) elements[key].insert(some.begin(), some.end());
  rules.insert(other.rules.begin(), other.rules.end());
}

namespace {

ServiceKeySet services_of(const DesiredState& desired,
                          const std::map<SetKey, ipset::ElementSet>& elements) {
  ServiceKeySet services;
  std::set<std::pair<netlink::Protocol, std::uint16_t>> node_ports;
  for (const auto& [set, some] : elements)
    for (const auto& element : some) {
      if (!keeps_source(set.id, element) && !masquerades(set.id, element) &&
          !way_from(set.id, element))
        continue;
      const auto guarded = guarded_by(set.id, element);
      if (guarded.service && desired.services.contains(*guarded.service))
        services.insert(*guarded.service);
      if (const auto protocol = protocol_of_ports(set.id); protocol && guarded.port)
        node_ports.emplace(*protocol, *guarded.port);
    }
  if (node_ports.empty()) return services;
  for (const auto& [key, planned] : desired.services)
    if (is_of_node_port(planned.facet) && node_ports.contains({key.protocol, key.port}))
      services.insert(key);
  return services;
}

}  // namespace

void add_deciding(const DesiredState& desired, Scope& scope) {
  scope.services.merge(services_of(desired, scope.elements));
  std::vector<netlink::VirtualServiceKey> ways;
  for (const auto& key : scope.services)
    if (const auto way = in_cluster_way_of(desired, key)) ways.push_back(*way);
  for (const auto& way : ways) {
    scope.services.insert(way);
    if (desired.addresses.contains(way.address)) scope.addresses.insert(way.address);
  }
}

}  // namespace ipvsproxier::plan
