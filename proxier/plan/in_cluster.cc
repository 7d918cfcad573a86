#include "proxier/plan/in_cluster.h"

#include <variant>

#include "ipset/rules/address_search.h"

namespace ipvsproxier::plan {

namespace {

using ipset::DestinationElement;
using ipset::InClusterEntry;
using netlink::Family;
using netlink::VirtualServiceKey;

VirtualServiceKey goal_of(const DestinationElement& element) {
  return {element.to, element.protocol, element.to_port};
}
VirtualServiceKey goal_of(const InClusterEntry& entry) {
  return {entry.to, entry.protocol, entry.to_port};
}

std::optional<VirtualServiceKey> way_by_rules(const DesiredState& desired,
                                              const VirtualServiceKey& key) {
  const auto rules = desired.rules.find(key.address.family());
  if (rules == desired.rules.end()) return std::nullopt;
  const InClusterEntry first{key.address, key.protocol, key.port,
                             netlink::IpAddress::any(key.address.family()), 0};
  const auto found = rules->second.in_cluster.lower_bound(first);
  if (found == rules->second.in_cluster.end() || !same_key(*found, first)) return std::nullopt;
  return goal_of(*found);
}

void add_ways_of_rules(const ActualState& actual, Family family, InClusterWays& ways) {
  const auto nat = actual.rules.find({family, ipset::Table::nat});
  if (nat == actual.rules.end()) return;
  for (const auto& entry : ipset::entries_in(nat->second.chains))
    ways[goal_of(entry)].push_back({entry.address, entry.protocol, entry.port});
}

}  // namespace

std::optional<VirtualServiceKey> in_cluster_way_of(const DesiredState& desired,
                                                   const VirtualServiceKey& key) {
  const auto family = key.address.family();
  const auto set = desired.sets.find({family, ipset::SetId::nft_in_cluster});
  if (set == desired.sets.end()) return way_by_rules(desired, key);
  if (set->second.empty()) return std::nullopt;
  const DestinationElement nowhere{key.address, key.protocol, key.port,
                                   netlink::IpAddress::any(family), 0};
  const auto found = set->second.replaced_by(nowhere);
  if (found.empty()) return std::nullopt;
  return goal_of(std::get<DestinationElement>(found.front()));
}

InClusterWays in_cluster_ways(const ActualState& actual) {
  InClusterWays ways;
  for (const auto family : netlink::kFamilies) {
    add_ways_of_rules(actual, family, ways);
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
