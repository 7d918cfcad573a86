#include "proxier/plan/in_cluster.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "ipset/rules/localhost_rules.h"

namespace ipvsproxier::plan {

namespace {

using ipset::DestinationElement;
using netlink::VirtualServiceKey;

VirtualServiceKey goal_of(const DestinationElement& element) {
  return {element.to, element.protocol, element.to_port};
}
// The address to which connection tracking sees packets to localhost go, behind the loop.
std::optional<VirtualServiceKey> way_from_localhost(const DesiredState& desired,
                                                    const VirtualServiceKey& key) {
  const auto& loop = ipset::localhost_loop(key.address.family());
  const auto rules = desired.rules.find(key.address.family());
  if (key.address != loop.near || rules == desired.rules.end() || !rules->second.localhost)
    return std::nullopt;
  return VirtualServiceKey{loop.server, key.protocol, key.port};
}

}  // namespace

std::optional<VirtualServiceKey> in_cluster_way_of(const DesiredState& desired,
                                                   const VirtualServiceKey& key) {
  if (auto way = way_from_localhost(desired, key)) return way;
  const auto family = key.address.family();
  const auto set = desired.sets.find({family, ipset::SetId::nft_in_cluster});
  if (set == desired.sets.end() || set->second.empty()) return std::nullopt;
  const DestinationElement nowhere{key.address, key.protocol, key.port,
                                   netlink::IpAddress::any(family), 0};
  const auto found = set->second.replaced_by(nowhere);
  if (found.empty()) return std::nullopt;
  return goal_of(std::get<DestinationElement>(found.front()));
}

void InClusterWays::note(const VirtualServiceKey& from, const VirtualServiceKey& goal) {
  if (from_[goal].insert(from).second) ++size_;
}

void InClusterWays::note(const ipset::Element& element) {
  const auto& one = std::get<DestinationElement>(element);
  note({one.ip, one.protocol, one.port}, goal_of(one));
}

void InClusterWays::note(const ActualState& kernel) {
  for (const auto family : netlink::kFamilies) {
    const auto set = kernel.sets.find({family, ipset::SetId::nft_in_cluster});
    if (set == kernel.sets.end() || !set->second) continue;
    for (const auto& element : *set->second) note(element);
  }
}

void InClusterWays::note(const Transaction& transaction, const ActualState& before) {
  if (size_ >= prune_at_ && before.services) prune(before);
  for (const auto& phase : transaction.phases) {
    if (const auto* changes = std::get_if<std::vector<SetChange>>(&phase.work))
      for (const auto& change : *changes)
        if (change.set.id == ipset::SetId::nft_in_cluster)
          for (const auto& op : change.ops) note(op.element);
  }
}

void InClusterWays::forget(const VirtualServiceKey& goal) {
  const auto found = from_.find(goal);
  if (found == from_.end()) return;
  size_ -= found->second.size();
  from_.erase(found);
}

void InClusterWays::prune(const ActualState& kernel) {
  const auto is_gone = [&](const VirtualServiceKey& key) {
    return !kernel.services->contains(key);
  };
  size_ = 0;
  for (auto it = from_.begin(); it != from_.end();) {
    std::erase_if(it->second, is_gone);
    if (is_gone(it->first)) it->second.clear();
    size_ += it->second.size();
    it = it->second.empty() ? from_.erase(it) : std::next(it);
  }
  if (size_ > prune_at_ / 2) {
    from_.clear();
    size_ = 0;
  }
  note(kernel);
  prune_at_ = std::max(kMany, 2 * size_);
}

std::map<VirtualServiceKey, std::vector<VirtualServiceKey>> InClusterWays::goals() const {
  std::map<VirtualServiceKey, std::vector<VirtualServiceKey>> goals;
  for (const auto& [goal, starts] : from_)
    for (const auto& start : starts) goals[start].push_back(goal);
  return goals;
}

InClusterWays::Keys InClusterWays::to(const VirtualServiceKey& goal) const {
  const auto& loop = ipset::localhost_loop(goal.address.family());
  if (goal.address == loop.server) return {{loop.near, goal.protocol, goal.port}};
  const auto found = from_.find(goal);
  return found == from_.end() ? Keys{} : found->second;
}

}  // namespace ipvsproxier::plan
