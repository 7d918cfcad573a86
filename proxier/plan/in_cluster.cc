#include "proxier/plan/in_cluster.h"

#include <variant>

namespace ipvsproxier::plan {

namespace {

using ipset::DestinationElement;
using netlink::VirtualServiceKey;

VirtualServiceKey goal_of(const DestinationElement& element) {
  return {element.to, element.protocol, element.to_port};
}

}  // namespace

std::optional<VirtualServiceKey> in_cluster_way_of(const DesiredState& desired,
                                                   const VirtualServiceKey& key) {
  const auto family = key.address.family();
  const auto set = desired.sets.find({family, ipset::SetId::nft_in_cluster});
  if (set == desired.sets.end() || set->second.empty()) return std::nullopt;
  const DestinationElement nowhere{key.address, key.protocol, key.port,
                                   netlink::IpAddress::any(family), 0};
  const auto found = set->second.replaced_by(nowhere);
  if (found.empty()) return std::nullopt;
  return goal_of(std::get<DestinationElement>(found.front()));
}

InClusterWays in_cluster_ways(const ActualState& actual) {
  InClusterWays ways;
  for (const auto family : netlink::kFamilies) {
    const auto set = actual.sets.find({family, ipset::SetId::nft_in_cluster});
    if (set == actual.sets.end() || !set->second) continue;
    for (const auto& element : *set->second) {
      const auto& one = std::get<DestinationElement>(element);
      ways[goal_of(one)].push_back({one.ip, one.protocol, one.port});
    }
  }
  return ways;
}

}  // namespace ipvsproxier::plan
