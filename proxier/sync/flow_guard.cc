#include "proxier/sync/flow_guard.h"

#include <algorithm>
#include <utility>

#include "ipset/nft/flow_rules.h"
#include "ipset/nftables/flow_table.h"

namespace ipvsproxier::sync {

using netlink::Family;
using netlink::NftFlowRule;

std::optional<TimePoint> FlowGuard::next() const {
  if (!hurried_ || !find_) return std::nullopt;
  return not_before_;
}

FlowGuard::Change FlowGuard::look(ipset::RuleTable& rules, plan::Planner& planner, TimePoint now) {
  if (!find_) return {};
  hurried_ = false;
  not_before_ = now + kBetweenLooks;
  auto found = find_();
  if (!found) {
    failed_look_.failed(found.error());
    return {};
  }
  failed_look_.succeeded();
  auto change = judge(ipset::families_of_flows(*found), rules, planner, now);
  for (const auto family : change.rules)
    planner.unaccelerated(family, change.guarded.contains(family));
  tell(*std::move(found));
  return change;
}

FlowGuard::Change FlowGuard::judge(const std::set<Family>& threatened, ipset::RuleTable& rules,
                                   const plan::Planner& planner, TimePoint now) {
  Change change;
  const bool changed = std::exchange(changed_, false);
  for (const auto& [family, parameters] : planner.desired().rules) {
    const bool is_guarded = table_.make ? made_.contains(family) : parameters.unaccelerated;
    if (threatened.contains(family) || (is_guarded && changed)) seen_[family] = now;
    const bool is_wanted = table_.make && (is_guarded || threatened.contains(family));
    if (!is_wanted && !cleared_.contains(family)) remove_table(family);
    if (threatened.contains(family)) {
      // The table may have been removed by others.
      if (is_guarded && !table_.make) continue;
      const auto status = guard(family, rules);
      why_[family] = status ? "" : netlink::to_string(status.error());
      if (status && !is_guarded) change.guarded.insert(family);
    } else if (is_guarded && now >= seen_[family] + kStays) {
      if (!table_.make) change.rules.insert(family);
      remove_table(family);
    }
  }
  if (!table_.make) change.rules.insert(change.guarded.begin(), change.guarded.end());
  return change;
}

netlink::Status FlowGuard::guard(Family family, ipset::RuleTable& rules) {
  if (!table_.make) return rules.can_keep_unaccelerated(family);
  auto made = table_.make(family);
  if (made)
    made_.insert(family);
  else
    made_.erase(family);
  return made;
}

// A failure is repeated by the next look.
void FlowGuard::remove_table(Family family) {
  if (!table_.remove) return;
  const auto removed = table_.remove(family);
  if (!removed) {
    logger_.debug("remove table {}: {}", ipset::kFlowTable, netlink::to_string(removed.error()));
    return;
  }
  made_.erase(family);
  cleared_.insert(family);
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
