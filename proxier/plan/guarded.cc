#include "proxier/plan/guarded.h"

#include <algorithm>
#include <variant>

namespace ipvsproxier::plan {

using ipset::SetId;
using netlink::Protocol;

std::optional<Protocol> protocol_of_ports(SetId set) {
  switch (set) {
    case SetId::node_port_tcp:
    case SetId::node_port_local_tcp:
      return Protocol::tcp;
    case SetId::node_port_udp:
    case SetId::node_port_local_udp:
      return Protocol::udp;
    default:
      return std::nullopt;
  }
}

bool is_of_other_endpoints(SetId set) {
  return set == SetId::other_endpoints || set == SetId::nft_other_endpoints;
}

bool names_endpoints(SetId set) {
  return set == SetId::loop_back || set == SetId::nft_hairpins || is_of_other_endpoints(set);
}

bool is_of_healthz(SetId set) {
  return set == SetId::healthz || set == SetId::nft_healthz;
}

Guarded guarded_by(SetId set, const ipset::Element& element) {
  Guarded guarded;
  if (!names_endpoints(set) && !is_of_healthz(set)) std::visit(guarded, element);
  return guarded;
}

bool lets_in(const ipset::ElementSet& has, const ipset::Element& element) {
  if (!std::holds_alternative<ipset::ServiceElement>(element)) return false;
  const auto replaced = has.replaced_by(element);
  return std::ranges::any_of(replaced, [](const ipset::Element& other) {
    const auto* service = std::get_if<ipset::ServiceElement>(&other);
    return service != nullptr && service->verdict == ipset::ServiceVerdict::absent;
  });
}

bool is_of_localhost(SetId set) {
  return set == SetId::nft_localhost;
}

bool drops_outside(const ipset::Element& element) {
  const auto* service = std::get_if<ipset::ServiceElement>(&element);
  return service != nullptr && service->verdict == ipset::ServiceVerdict::absent;
}

std::optional<netlink::VirtualServiceKey> way_from(SetId set, const ipset::Element& element) {
  if (set != SetId::nft_in_cluster && !drops_outside(element)) return std::nullopt;
  return guarded_by(set, element).service;
}

bool keeps_source(SetId set, const ipset::Element& element) {
  if (const auto* service = std::get_if<ipset::ServiceElement>(&element))
    return service->verdict == ipset::ServiceVerdict::keep ||
           service->verdict == ipset::ServiceVerdict::local;
  return marking_set(set).has_value();
}

bool masquerades(SetId set, const ipset::Element& element) {
  const auto* service = std::get_if<ipset::ServiceElement>(&element);
  return set == SetId::external_ip ||
         (service != nullptr && (service->verdict == ipset::ServiceVerdict::mark ||
                                 service->verdict == ipset::ServiceVerdict::cluster));
}

std::optional<SetId> marking_set(SetId set) {
  switch (set) {
    case SetId::load_balancer_local:
      return SetId::load_balancer;
    case SetId::node_port_local_tcp:
      return SetId::node_port_tcp;
    case SetId::node_port_local_udp:
      return SetId::node_port_udp;
    case SetId::node_port_local_sctp_hash:
      return SetId::node_port_sctp_hash;
    default:
      return std::nullopt;
  }
}

std::vector<std::pair<SetId, ipset::Element>> elements_of(
    const netlink::VirtualServiceKey& service) {
  const auto& [address, protocol, port, mark] = service;
  const ipset::IpPortElement own{address, protocol, port};
  std::vector<std::pair<SetId, ipset::Element>> elements;
  for (const auto set : {SetId::cluster_ip, SetId::external_ip, SetId::external_ip_local,
                         SetId::load_balancer, SetId::load_balancer_local})
    elements.emplace_back(set, own);
  for (const auto& one : ipset::all_of(address, protocol, port))
    if (one.verdict != ipset::ServiceVerdict::foreign)
      elements.emplace_back(SetId::nft_services, one);
  switch (protocol) {
    case Protocol::tcp:
      elements.emplace_back(SetId::node_port_tcp, ipset::PortElement{port});
      elements.emplace_back(SetId::node_port_local_tcp, ipset::PortElement{port});
      break;
    case Protocol::udp:
      elements.emplace_back(SetId::node_port_udp, ipset::PortElement{port});
      elements.emplace_back(SetId::node_port_local_udp, ipset::PortElement{port});
      break;
    case Protocol::sctp:
      elements.emplace_back(SetId::node_port_sctp_hash, own);
      elements.emplace_back(SetId::node_port_local_sctp_hash, own);
      break;
  }
  return elements;
}

}  // namespace ipvsproxier::plan
