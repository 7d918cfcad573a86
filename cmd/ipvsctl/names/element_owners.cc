#include "cmd/ipvsctl/names/element_owners.h"

#include <optional>
#include <variant>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/guarded.h"

namespace ipvsproxier::ctl {

using ipset::Element;
using ipset::IpElement;
using ipset::IpPortElement;
using ipset::PortElement;
using ipset::SetId;
using netlink::Protocol;

namespace {

// The parts of an element that determine its owner: without sources and verdicts.
Element without_source(const Element& element) {
  if (const auto* one = std::get_if<ipset::IpPortIpElement>(&element))
    return IpPortElement{one->ip, one->protocol, one->port};
  if (const auto* one = std::get_if<ipset::IpPortNetElement>(&element))
    return IpPortElement{one->ip, one->protocol, one->port};
  if (const auto* one = std::get_if<ipset::RangesElement>(&element))
    return IpPortElement{one->ip, one->protocol, one->port};
  if (const auto* one = std::get_if<ipset::ServiceElement>(&element))
    return IpPortElement{one->ip, one->protocol, one->port};
  if (const auto* one = std::get_if<ipset::DestinationElement>(&element))
    return IpPortElement{one->ip, one->protocol, one->port};
  return element;
}

// Addresses of Services.
bool is_of_vips(SetId id) {
  return id == SetId::ipvs_ips || id == SetId::nft_vips || plan::is_of_healthz(id);
}

bool is_of_health_checks(SetId id) {
  return id == SetId::health_check_node_port || id == SetId::nft_health_ports;
}

api::NamespacedName service_of(const VirtualName& name) {
  return {std::string(name.ns), std::string(name.service)};
}

}  // namespace

ElementOwners::ElementOwners(const plan::SetKey& set, const ClusterNames& names) : set_(set) {
  if (plan::names_endpoints(set.id))
    take_endpoints(names);
  else if (is_of_health_checks(set.id))
    take_health_checks(names);
  else
    take_virtuals(names);
}

void ElementOwners::take_virtuals(const ClusterNames& names) {
  const auto protocol = plan::protocol_of_ports(set_.id);
  for (const auto& [key, _] : names.virtuals()) {
    if (key.address.family() != set_.family) continue;
    const auto name = *names.of(key);
    const bool node_port = is_of_node_port(name.facet);
    if (name.facet == plan::Facet::localhost && !is_of_vips(set_.id))
      owners_[IpPortElement{ipset::localhost_loop(set_.family).localhost, key.protocol, key.port}]
          .insert(to_string(name));
    if (protocol) {
      if (node_port && key.protocol == protocol)
        owners_[PortElement{key.port}].insert(to_string(name));
    } else if (is_of_vips(set_.id)) {
      if (!node_port) owners_[IpElement{key.address}].insert(api::to_string(service_of(name)));
    } else {
      owners_[IpPortElement{key.address, key.protocol, key.port}].insert(to_string(name));
    }
  }
}

void ElementOwners::take_health_checks(const ClusterNames& names) {
  names.each_service([this](const api::NamespacedName& service, std::uint16_t port) {
    if (port != 0) owners_[PortElement{port}].insert(api::to_string(service));
  });
}

// The ports of endpoints have no protocols here; use those of the Service.
void ElementOwners::take_endpoints(const ClusterNames& names) {
  std::map<api::NamespacedName, std::set<Protocol>> protocols;
  for (const auto& [key, _] : names.virtuals())
    protocols[service_of(*names.of(key))].insert(key.protocol);
  names.each_endpoint([&](const api::NamespacedName& service, const netlink::IpAddress& address,
                          const std::vector<std::uint16_t>& ports) {
    if (address.family() != set_.family) return;
    if (set_.id != SetId::loop_back) owners_[IpElement{address}].insert(api::to_string(service));
    for (const auto port : ports)
      for (const auto protocol : protocols[service])
        owners_[IpPortElement{address, protocol, port}].insert(api::to_string(service));
  });
}

const std::set<std::string>& ElementOwners::of(const Element& element) const {
  static const std::set<std::string> kNobody;
  const auto it = owners_.find(without_source(element));
  return it == owners_.end() ? kNobody : it->second;
}

bool ElementOwners::knows_all() const {
  return !plan::names_endpoints(set_.id) && !is_of_vips(set_.id) && !is_of_health_checks(set_.id);
}

}  // namespace ipvsproxier::ctl
