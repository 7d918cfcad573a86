#include "proxier/plan/guarded.h"

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

bool names_endpoints(SetId set) {
  return set == SetId::loop_back || set == SetId::nft_hairpins;
}

Guarded guarded_by(SetId set, const ipset::Element& element) {
  Guarded guarded;
  if (!names_endpoints(set)) std::visit(guarded, element);
  return guarded;
}

}  // namespace ipvsproxier::plan
