#include "proxier/plan/leftovers.h"

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "proxier/plan/diff.h"
#include "proxier/plan/guarded.h"

namespace ipvsproxier::plan {

namespace {

using NodePorts = std::set<std::pair<netlink::Protocol, std::uint16_t>>;

void note_node_port(const netlink::VirtualServiceKey& key, const PlannedService& planned,
                    NodePorts& ports) {
  if (is_of_node_port(planned.facet)) ports.emplace(key.protocol, key.port);
}

NodePorts node_ports_of(const DesiredState& desired) {
  NodePorts ports;
  for (const auto& [key, planned] : desired.services) note_node_port(key, planned, ports);
  return ports;
}

// Whether the element is about a wanted virtual service: all its wanted elements are then known.
template <typename IsWanted>
bool guards(const SetKey& set, const ipset::Element& element, const NodePorts& node_ports,
            IsWanted is_wanted) {
  const auto guarded = guarded_by(set.id, element);
  if (guarded.service) return is_wanted(*guarded.service);
  const auto protocol = protocol_of_ports(set.id);
  return guarded.port && protocol && node_ports.contains({*protocol, *guarded.port});
}

// Drops leftover elements of virtual services that are planned now: the next difference handles
// them.
void forget_elements(Scope& asked, DesiredState& desired) {
  NodePorts node_ports;
  bool any = false;
  for (const auto& key : asked.services)
    if (const auto planned = desired.services.find(key); planned != desired.services.end()) {
      any = true;
      note_node_port(key, planned->second, node_ports);
    }
  if (!any) return;
  const auto is_wanted = [&](const netlink::VirtualServiceKey& key) {
    return asked.services.contains(key) && desired.services.contains(key);
  };
  auto& left = desired.leftovers.elements;
  for (auto it = left.begin(); it != left.end();) {
    auto& [set, elements] = *it;
    std::vector<ipset::Element> known;
    for (const auto& element : elements)
      if (guards(set, element, node_ports, is_wanted)) known.push_back(element);
    for (const auto& element : known) {
      elements.erase(element);
      asked.elements[set].insert(element);
    }
    it = elements.empty() ? left.erase(it) : std::next(it);
  }
}

bool may_own_servers(const Doubt& doubt, const api::NamespacedName* owner) {
  return doubt.slices || (owner != nullptr && doubt.namespaces.contains(owner->ns));
}

}  // namespace

void add_leftover_services(const DesiredState& desired,
                           const std::map<netlink::VirtualServiceKey, ActualService>& services,
                           const Doubt& doubt, Leftovers& leftovers) {
  if (!doubt.services) return;
  for (const auto& [key, actual] : services)
    if (!desired.services.contains(key) && is_ours(desired, key)) leftovers.services.insert(key);
}

void add_leftover_servers(const DesiredState& desired, const netlink::VirtualServiceKey& key,
                          const RealServers& servers, const Doubt& doubt, const OwnerOf& owner_of,
                          Leftovers& leftovers) {
  const auto planned = desired.services.find(key);
  if (planned == desired.services.end() || !may_own_servers(doubt, owner_of(key))) return;
  // A server of weight 0 was being drained.
  for (const auto& server : servers)
    if (server.weight != 0 && !planned->second.servers.contains(server.key))
      leftovers.servers.emplace(key, server.key);
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
  if (!doubt.services && !(doubt.about_slices() && names_endpoints(set.id))) return;
  const auto node_ports = protocol_of_ports(set.id) ? node_ports_of(desired) : NodePorts();
  const auto is_wanted = [&](const auto& key) { return desired.services.contains(key); };
  for (const auto& element : elements)
    if (!wanted->second.contains(element) && !guards(set, element, node_ports, is_wanted))
      leftovers.elements[set].insert(element);
}

void narrow(const Doubt& doubt, const OwnerOf& owner_of, Leftovers& leftovers) {
  std::erase_if(leftovers.servers, [&](const auto& server) {
    return !may_own_servers(doubt, owner_of(server.first));
  });
  if (doubt.services) return;
  leftovers.services.clear();
  leftovers.addresses.clear();
  std::erase_if(leftovers.elements, [&](const auto& entry) {
    return !doubt.about_slices() || !names_endpoints(entry.first.id);
  });
}

void forget_leftovers(Scope& asked, DesiredState& desired) {
  auto& leftovers = desired.leftovers;
  if (leftovers.empty()) return;
  forget_elements(asked, desired);
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
