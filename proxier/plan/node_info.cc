#include "proxier/plan/node_info.h"

#include <utility>

namespace ipvsproxier::plan {

using netlink::Family;
using netlink::IpAddress;

NodeInfo node_info(std::string name, const std::optional<api::Node>& node,
                   const std::optional<IpAddress>& bind_address,
                   std::vector<netlink::InterfaceAddress> addresses) {
  NodeInfo info;
  info.name = std::move(name);
  info.addresses = std::move(addresses);
  if (bind_address && !bind_address->is_any())
    info.ips.emplace(bind_address->family(), *bind_address);
  if (node) {
    info.zone = node->zone;
    info.pod_cidrs = node->pod_cidrs;
    info.ips_known = !node->internal_ips.empty() || !node->external_ips.empty();
    for (const auto* list : {&node->internal_ips, &node->external_ips})
      for (const auto& ip : *list) info.ips.emplace(ip.family(), ip);
  }
  info.ips.emplace(Family::ipv4, IpAddress::v4(0x7f000001));
  info.ips.emplace(Family::ipv6, *IpAddress::parse("::1"));
  return info;
}

}  // namespace ipvsproxier::plan
