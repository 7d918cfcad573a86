#include "ipset/filter/nftables_filter.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/localhost_rules.h"

namespace ipvsproxier::ipset {

namespace {

ServiceVerdict verdict_of(const VipTraffic& traffic) {
  if (traffic.in_cluster)
    return traffic.drops_outside ? ServiceVerdict::absent : ServiceVerdict::local;
  switch (traffic.source) {
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

// Packets of this node to an address on one of its links have that address as their source: it
// stands for the node, whatever range it is in.
std::vector<IpPrefix> allowed_sources(const IpAddress& address, const VipTraffic& traffic) {
  if (traffic.source_ranges.empty()) return {};
  auto ranges = outermost_of(traffic.source_ranges);
  if (traffic.ranges_hold_node) {
    ranges.push_back(IpPrefix::of(address, netlink::address_bits(address.family())));
    return outermost_of(std::move(ranges));
  }
  const auto holding =
      std::ranges::find_if(ranges, [&](const IpPrefix& range) { return range.contains(address); });
  if (holding == ranges.end()) return ranges;
  const auto rest = without(*holding, address);
  ranges.erase(holding);
  ranges.insert(ranges.end(), rest.begin(), rest.end());
  std::ranges::sort(ranges);
  // No client has this address; without any range all would be let in.
  if (ranges.empty())
    ranges.push_back(
        IpPrefix::of(IpAddress::any(address.family()), netlink::address_bits(address.family())));
  return ranges;
}

}  // namespace

void render_nftables(const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
                     Rendered& rendered) {
  auto& elements = rendered.elements;
  const auto& [address, protocol, port, fwmark] = key;
  // At an address of another link a host port precedes a node port, and follows any other port of a
  // Service.
  if (!traffic.is_bound && traffic.facets != Facet::node_port)
    elements.emplace_back(SetId::nft_on_links,
                          DestinationElement{address, protocol, port, address, port});
  elements.emplace_back(
      SetId::nft_services,
      ServiceElement{address, protocol, port, verdict_of(traffic), !traffic.source_ranges.empty()});
  if (traffic.facets.contains(Facet::localhost) && traffic.is_served) {
    const auto& loop = localhost_loop(address.family());
    elements.emplace_back(SetId::nft_localhost,
                          DestinationElement{loop.localhost, protocol, port, loop.near, port});
  }
  if (const auto& instead = traffic.in_cluster)
    elements.emplace_back(
        SetId::nft_in_cluster,
        DestinationElement{address, protocol, port, instead->address, instead->port});
  if (auto ranges = allowed_sources(address, traffic); !ranges.empty())
    elements.emplace_back(SetId::nft_source_ranges,
                          RangesElement{address, protocol, port, std::move(ranges)});
}

void render_nftables(const SharedTraffic& traffic, Rendered& rendered) {
  auto& elements = rendered.elements;
  const IpElement address{traffic.address};
  switch (traffic.kind) {
    case SharedTraffic::Kind::vip:
      elements.emplace_back(SetId::nft_vips, address);
      return;
    case SharedTraffic::Kind::hairpin:
      // The set has neither protocol nor port: with an address of the node, all that the node sends
      // to itself would be masqueraded.
      if (!traffic.is_node) elements.emplace_back(SetId::nft_hairpins, address);
      return;
    case SharedTraffic::Kind::other_endpoint:
      elements.emplace_back(SetId::nft_other_endpoints, address);
      return;
    case SharedTraffic::Kind::health_address:
      elements.emplace_back(SetId::nft_healthz, address);
      return;
    case SharedTraffic::Kind::health_port:
      elements.emplace_back(SetId::nft_health_ports, PortElement{traffic.port});
      return;
  }
}

}  // namespace ipvsproxier::ipset
