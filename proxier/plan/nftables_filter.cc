#include "proxier/plan/nftables_filter.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ipvsproxier::plan {

namespace {

using ipset::IpElement;
using ipset::IpPortNetElement;
using ipset::PortElement;
using ipset::ServiceElement;
using ipset::ServiceVerdict;
using ipset::SetId;
using netlink::IpPrefix;

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

// The ranges without those that are part of others, which the kernel's intervals do not have.
std::vector<IpPrefix> allowed_sources(const VipTraffic& vip) {
  if (vip.source_ranges.empty()) return {};
  std::vector<IpPrefix> ranges(vip.source_ranges.begin(), vip.source_ranges.end());
  // Packets of this node to an address on one of its links have that address as their source.
  const auto& address = vip.key.address;
  if (vip.ranges_hold_node)
    ranges.push_back(IpPrefix::of(address, netlink::address_bits(address.family())));
  // A range comes before those that are part of it.
  std::ranges::sort(ranges, [](const IpPrefix& one, const IpPrefix& other) {
    return std::pair(one.address, one.length) < std::pair(other.address, other.length);
  });
  std::vector<IpPrefix> outermost;
  for (const auto& range : ranges)
    if (outermost.empty() || !outermost.back().contains(range.address)) outermost.push_back(range);
  return outermost;
}

void add_vip(const VipTraffic& vip, std::vector<SetElement>& elements) {
  const auto& [address, protocol, port, fwmark] = vip.key;
  elements.emplace_back(SetId::nft_services,
                        ServiceElement{address, protocol, port, verdict_of(vip.source)});
  for (const auto& range : allowed_sources(vip))
    elements.emplace_back(SetId::nft_source_ranges,
                          IpPortNetElement{address, protocol, port, range});
}

}  // namespace

SetElements nftables_filter(const ServiceTraffic& traffic) {
  std::vector<SetElement> elements;
  for (const auto& vip : traffic.vips) add_vip(vip, elements);
  // The set has neither protocol nor port: the node's own address in it would masquerade all that
  // the node sends to itself.
  for (const auto& hairpin : traffic.hairpins)
    if (!hairpin.is_node)
      elements.emplace_back(SetId::nft_hairpins, IpElement{hairpin.endpoint.address});
  for (const auto port : traffic.health_ports)
    elements.emplace_back(SetId::nft_health_ports, PortElement{port});
  for (const auto& address : traffic.addresses)
    elements.emplace_back(SetId::nft_vips, IpElement{address});
  return SetElements(elements);
}

}  // namespace ipvsproxier::plan
