#include "proxier/plan/nftables_filter.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ipset/rules/localhost_rules.h"

namespace ipvsproxier::plan {

namespace {

using ipset::DestinationElement;
using ipset::IpElement;
using ipset::IpPortNetElement;
using ipset::PortElement;
using ipset::ServiceElement;
using ipset::ServiceVerdict;
using ipset::SetId;
using netlink::IpAddress;
using netlink::IpPrefix;

ServiceVerdict verdict_of(const VipTraffic& vip) {
  if (vip.in_cluster) return vip.drops_outside ? ServiceVerdict::absent : ServiceVerdict::local;
  switch (vip.source) {
    case ClientSource::kept:
      return ServiceVerdict::keep;
    case ClientSource::masqueraded:
      return ServiceVerdict::mark;
    case ClientSource::masqueraded_unless_by_pod:
      return ServiceVerdict::cluster;
  }
  return ServiceVerdict::mark;
}

IpAddress with_flipped_bit(const IpAddress& address, std::uint8_t bit) {
  const auto given = address.bytes();
  std::vector<std::uint8_t> bytes(given.begin(), given.end());
  bytes[bit / 8U] = static_cast<std::uint8_t>(bytes[bit / 8U] ^ 0x80U >> bit % 8U);
  return *IpAddress::from_bytes(address.family(), bytes);
}

// The prefixes that together are the range without this address of it.
std::vector<IpPrefix> without(const IpPrefix& range, const IpAddress& address) {
  std::vector<IpPrefix> rest;
  const auto bits = netlink::address_bits(address.family());
  for (auto length = range.length; length < bits; ++length)
    rest.push_back(
        IpPrefix::of(with_flipped_bit(address, length), static_cast<std::uint8_t>(length + 1)));
  return rest;
}

// No two overlap: the kernel's intervals cannot.
std::vector<IpPrefix> outermost_of(std::vector<IpPrefix> ranges) {
  // A range comes before those that are part of it.
  std::ranges::sort(ranges, [](const IpPrefix& one, const IpPrefix& other) {
    return std::pair(one.address, one.length) < std::pair(other.address, other.length);
  });
  std::vector<IpPrefix> outermost;
  for (const auto& range : ranges)
    if (outermost.empty() || !outermost.back().contains(range.address)) outermost.push_back(range);
  return outermost;
}

// Packets of this node to an address on one of its links have that address as their source: it
// stands for the node, whatever range it is in.
std::vector<IpPrefix> allowed_sources(const VipTraffic& vip) {
  if (vip.source_ranges.empty()) return {};
  const auto& address = vip.key.address;
  auto ranges = outermost_of({vip.source_ranges.begin(), vip.source_ranges.end()});
  if (vip.ranges_hold_node) {
    ranges.push_back(IpPrefix::of(address, netlink::address_bits(address.family())));
    return outermost_of(std::move(ranges));
  }
  const auto holding =
      std::ranges::find_if(ranges, [&](const IpPrefix& range) { return range.contains(address); });
  if (holding == ranges.end()) return ranges;
  const auto rest = without(*holding, address);
  ranges.erase(holding);
  ranges.insert(ranges.end(), rest.begin(), rest.end());
  // Nobody has this address; without any range everybody would be let in.
  if (ranges.empty())
    ranges.push_back(
        IpPrefix::of(IpAddress::any(address.family()), netlink::address_bits(address.family())));
  return ranges;
}

void add_vip(const VipTraffic& vip, bool is_bound, std::vector<SetElement>& elements) {
  const auto& [address, protocol, port, fwmark] = vip.key;
  if (!is_bound && vip.facet != Facet::node_port)
    elements.emplace_back(SetId::nft_on_links,
                          DestinationElement{address, protocol, port, address, port});
  elements.emplace_back(
      SetId::nft_services,
      ServiceElement{address, protocol, port, verdict_of(vip), !vip.source_ranges.empty()});
  if (vip.facet == Facet::localhost && vip.is_served) {
    const auto& loop = ipset::localhost_loop(address.family());
    elements.emplace_back(SetId::nft_localhost,
                          DestinationElement{loop.localhost, protocol, port, loop.near, port});
  }
  if (const auto& instead = vip.in_cluster)
    elements.emplace_back(
        SetId::nft_in_cluster,
        DestinationElement{address, protocol, port, instead->address, instead->port});
  for (const auto& range : allowed_sources(vip))
    elements.emplace_back(SetId::nft_source_ranges,
                          IpPortNetElement{address, protocol, port, range});
}

// A port may have one address by two facets, where its externalIPs name its own load-balancer IP;
// the map has one element for it. The source ranges of either count, and what either masquerades is
// masqueraded, as with the sets of iptables.
void join(VipTraffic& one, const VipTraffic& other) {
  if (one.source_ranges.empty()) {
    one.source_ranges = other.source_ranges;
    one.ranges_hold_node = other.ranges_hold_node;
  }
  if (one.source == ClientSource::kept)
    one.source = other.source;
  else if (other.source != ClientSource::kept && other.source != one.source)
    one.source = ClientSource::masqueraded;
  if (one.facet == Facet::node_port) one.facet = other.facet;
  if (!other.in_cluster) one.in_cluster.reset();
  one.drops_outside = one.drops_outside && other.drops_outside && one.in_cluster;
}

std::map<netlink::VirtualServiceKey, VipTraffic> by_key(const std::vector<VipTraffic>& vips) {
  std::map<netlink::VirtualServiceKey, VipTraffic> joined;
  for (const auto& vip : vips)
    if (const auto [it, first] = joined.emplace(vip.key, vip); !first) join(it->second, vip);
  return joined;
}

}  // namespace

SetElements nftables_filter(const ServiceTraffic& traffic) {
  std::vector<SetElement> elements;
  for (const auto& [key, vip] : by_key(traffic.vips))
    add_vip(vip, std::ranges::binary_search(traffic.addresses, key.address), elements);
  // The set has neither protocol nor port: the node's own address in it would masquerade all that
  // the node sends to itself.
  for (const auto& hairpin : traffic.hairpins)
    if (!hairpin.is_node)
      elements.emplace_back(SetId::nft_hairpins, IpElement{hairpin.endpoint.address});
  for (const auto& endpoint : traffic.other_endpoints)
    elements.emplace_back(SetId::nft_other_endpoints, IpElement{endpoint});
  for (const auto& address : traffic.healthz)
    elements.emplace_back(SetId::nft_healthz, IpElement{address});
  for (const auto port : traffic.health_ports)
    elements.emplace_back(SetId::nft_health_ports, PortElement{port});
  for (const auto& address : traffic.addresses)
    elements.emplace_back(SetId::nft_vips, IpElement{address});
  return SetElements(elements);
}

}  // namespace ipvsproxier::plan
