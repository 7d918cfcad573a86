#include "proxier/plan/nftables_filter.h"

#include <vector>

namespace ipvsproxier::plan {

namespace {

using ipset::IpElement;
using ipset::IpPortNetElement;
using ipset::PortElement;
using ipset::ServiceElement;
using ipset::ServiceVerdict;
using ipset::SetId;

ServiceVerdict verdict_of(ClientSource source) {
  switch (source) {
    case ClientSource::kept:
      return ServiceVerdict::keep;
    case ClientSource::masqueraded:
      return ServiceVerdict::mark;
    case ClientSource::masqueraded_unless_by_pod:
      return ServiceVerdict::cluster;
  }
  return ServiceVerdict::mark;
}

void add_vip(const VipTraffic& vip, std::vector<SetElement>& elements) {
  const auto& [address, protocol, port, fwmark] = vip.key;
  elements.emplace_back(SetId::nft_services,
                        ServiceElement{address, protocol, port, verdict_of(vip.source)});
  if (vip.source_ranges.empty()) return;
  for (const auto& range : vip.source_ranges)
    elements.emplace_back(SetId::nft_source_ranges,
                          IpPortNetElement{address, protocol, port, range});
  // Packets of this node to an address on one of its links have that address as their source.
  if (vip.ranges_hold_node)
    elements.emplace_back(
        SetId::nft_source_ranges,
        IpPortNetElement{
            address, protocol, port, {address, netlink::address_bits(address.family())}});
}

}  // namespace

SetElements nftables_filter(const ServiceTraffic& traffic) {
  std::vector<SetElement> elements;
  for (const auto& vip : traffic.vips) add_vip(vip, elements);
  for (const auto& [protocol, endpoint] : traffic.hairpins)
    elements.emplace_back(SetId::nft_hairpins, IpElement{endpoint.address});
  for (const auto port : traffic.health_ports)
    elements.emplace_back(SetId::nft_health_ports, PortElement{port});
  for (const auto& address : traffic.addresses)
    elements.emplace_back(SetId::nft_vips, IpElement{address});
  return SetElements(elements);
}

}  // namespace ipvsproxier::plan
