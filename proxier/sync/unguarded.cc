#include "proxier/sync/unguarded.h"

#include <variant>

namespace ipvsproxier::sync {

namespace {

using ipset::SetId;
using netlink::Protocol;

// Of the sets that hold node ports.
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

}  // namespace

Guarded guarded_by(SetId set, const ipset::Element& element) {
  Guarded guarded;
  if (set != SetId::loop_back) std::visit(guarded, element);  // that speaks of endpoints
  return guarded;
}

void Unguarded::note(SetId set, const ipset::Element& element, Cause cause) {
  const auto [service, address, port] = guarded_by(set, element);
  if (service) blame(services_, *service, cause);
  if (address) blame(addresses_, *address, cause);
  if (const auto protocol = protocol_of_ports(set); protocol && port)
    blame(node_ports_, {*protocol, *port}, cause);
}

void Unguarded::note(const netlink::VirtualServiceKey& service, Cause cause) {
  blame(services_, service, cause);
}

std::optional<Cause> Unguarded::of(const netlink::VirtualServiceKey& service) const {
  std::optional<Cause> result;
  for (const auto cause : {find_cause(addresses_, service.address), find_cause(services_, service),
                           find_cause(node_ports_, {service.protocol, service.port})})
    if (cause && result != Cause::node) result = cause;
  return result;
}

std::optional<Cause> Unguarded::of(const netlink::IpAddress& address) const {
  return find_cause(addresses_, address);
}

}  // namespace ipvsproxier::sync
