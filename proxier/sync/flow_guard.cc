#include "proxier/sync/flow_guard.h"

#include <algorithm>
#include <utility>

#include "ipset/nft/flow_rules.h"

namespace ipvsproxier::sync {

using netlink::Family;
using netlink::NftFlowRule;

std::optional<TimePoint> FlowGuard::next() const {
  if (!hurried_ || !find_) return std::nullopt;
  return not_before_;
}

FlowGuard::Change FlowGuard::look(ipset::RuleTable& rules, plan::Planner& planner, TimePoint now) {
  Change change;
  if (!find_) return change;
  hurried_ = false;
  not_before_ = now + kBetweenLooks;
  auto found = find_();
  if (!found) {
    logger_.debug("rules that add to flowtables: {}", netlink::to_string(found.error()));
    return change;
  }
  const bool changed = std::exchange(changed_, false);
  const auto threatened = ipset::families_of_flows(*found);
  for (const auto& [family, parameters] : planner.desired().rules) {
    const bool is_guarded = parameters.unaccelerated;
    if (threatened.contains(family)) {
      seen_[family] = now;
      if (is_guarded) continue;
      const auto usable = rules.can_keep_unaccelerated(family);
      why_[family] = usable ? "" : netlink::to_string(usable.error());
      if (!usable) continue;
      change.rules.insert(family);
      change.guarded.insert(family);
    } else if (is_guarded && changed) {
      seen_[family] = now;
    } else if (is_guarded && now >= seen_[family] + kStays) {
      change.rules.insert(family);
    }
  }
  for (const auto family : change.rules)
    planner.unaccelerated(family, change.guarded.contains(family));
  tell(*std::move(found));
  return change;
}

// "": it is guarded.
std::string FlowGuard::why_unguarded(const NftFlowRule& rule) const {
  for (const auto family : ipset::families_of_flows({rule}))
    if (const auto why = why_.find(family); why != why_.end() && !why->second.empty())
      return why->second;
  return "";
}

void FlowGuard::tell(std::vector<NftFlowRule> found) {
  std::ranges::sort(found);
  const auto untold = found.size() - std::min(found.size(), kMostTold);
  found.resize(found.size() - untold);
  std::map<NftFlowRule, std::string> now_there;
  for (auto& rule : found) {
    auto why = why_unguarded(rule);
    const auto before = told_.find(rule);
    if (before == told_.end() || before->second != why)
      logger_.log(why.empty() ? spdlog::level::info : spdlog::level::warn, "{}",
                  ipset::text_of_flow_rule(rule, why));
    now_there.emplace(std::move(rule), std::move(why));
  }
  for (const auto& [rule, why] : told_)
    if (!now_there.contains(rule)) logger_.info("no longer so: {}", ipset::name_of_flow_rule(rule));
  if (untold > untold_) logger_.info("{} more rules add connections to flowtables", untold);
  told_ = std::move(now_there);
  untold_ = untold;
}

std::vector<std::string> FlowGuard::unguarded() const {
  std::vector<std::string> texts;
  for (const auto& [rule, why] : told_)
    if (!why.empty()) texts.push_back(ipset::text_of_flow_rule(rule, why));
  return texts;
}

}  // namespace ipvsproxier::sync
