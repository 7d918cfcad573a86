#include "proxier/plan/actual_state.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::plan {

namespace {

struct CommitIpvs {
  std::map<netlink::VirtualServiceKey, ActualService>& services;

  void put(const netlink::VirtualService& service) const {
    const auto [it, added] = services.try_emplace(service.key);
    it->second.service = service;
    if (added) it->second.servers.emplace();
  }
  void put(const netlink::VirtualServiceKey& service, const netlink::RealServer& server) const {
    const auto it = services.find(service);
    if (it != services.end() && it->second.servers) it->second.servers->insert_or_assign(server);
  }

  void operator()(const netlink::AddService& op) const { put(op.service); }
  void operator()(const netlink::EditService& op) const { put(op.service); }
  void operator()(const netlink::DeleteService& op) const { services.erase(op.key); }
  void operator()(const netlink::AddServer& op) const { put(op.service, op.server); }
  void operator()(const netlink::EditServer& op) const { put(op.service, op.server); }
  void operator()(const netlink::DeleteServer& op) const {
    const auto it = services.find(op.service);
    if (it != services.end() && it->second.servers) it->second.servers->erase(op.server);
  }
};

}  // namespace

RealServers listed_servers(const std::vector<netlink::ListedServer>& listed) {
  std::vector<netlink::RealServer> servers;
  servers.reserve(listed.size());
  for (const auto& one : listed) servers.push_back(one.server);
  return RealServers(std::move(servers));
}

bool is_listing(const RealServers& servers, const std::vector<netlink::ListedServer>& listed) {
  return std::equal(servers.begin(), servers.end(), listed.begin(), listed.end(),
                    [](const auto& has, const auto& one) { return has == one.server; });
}

void ActualState::commit(const netlink::IpvsOp& op) {
  if (services) std::visit(CommitIpvs{*services}, op);
}

void ActualState::commit(const BindingOp& op) {
  if (!addresses) return;
  if (op.add)
    addresses->insert(op.binding);
  else
    addresses->erase(op.binding);
}

void ActualState::commit(const SetKey& set, const ipset::ElementOp& op) {
  const auto it = sets.find(set);
  if (it == sets.end() || !it->second) return;
  if (op.add) {
    for (const auto& replaced : it->second->replaced_by(op.element)) it->second->erase(replaced);
    it->second->insert(op.element);
  } else {
    it->second->erase(op.element);
  }
}

void ActualState::commit(const ipset::SetSpec& made) {
  for (auto& [key, elements] : sets) {
    if (ipset::set_name(key.id, key.family) != made.name) continue;
    if (!elements) elements.emplace();
    odd_capacities.erase(key);
    if (made.max_elements != ipset::kSetCapacity) odd_capacities[key] = made.max_elements;
  }
}

std::uint32_t ActualState::capacity(const SetKey& set) const {
  const auto it = odd_capacities.find(set);
  return it == odd_capacities.end() ? ipset::kSetCapacity : it->second;
}

void ActualState::commit(const ipset::TableRules& table) {
  rules.insert_or_assign({table.family, table.table}, table);
}

void ActualState::lose_services() {
  if (!services) return;
  for (const auto& [key, service] : *services) remembered.insert(key);
  services.reset();
}

Scope whole(const DesiredState& desired, const ActualState& actual) {
  Scope scope;
  for (const auto& [key, service] : desired.services) scope.services.insert(key);
  if (actual.services)
    for (const auto& [key, service] : *actual.services) scope.services.insert(key);
  scope.addresses = desired.addresses;
  if (actual.addresses)
    for (const auto& binding : *actual.addresses) scope.addresses.insert(binding.address);
  scope.elements.insert(desired.sets.begin(), desired.sets.end());
  for (const auto& [key, elements] : actual.sets)
    if (elements) scope.elements[key].insert(elements->begin(), elements->end());
  for (const auto& [family, parameters] : desired.rules) scope.rules.insert(family);
  return scope;
}

}  // namespace ipvsproxier::plan
