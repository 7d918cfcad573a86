#include "ipset/nft/legacy_judge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ipset/nft/chain_walk.h"
#include "ipset/nft/condition_judge.h"

namespace ipvsproxier::ipset {

namespace {

Truth rule_holds(const Rule& rule, const FirewallPacket& packet) {
  auto all = Truth::yes;
  const auto ask = [&](const auto& condition) { all = std::min(all, judge(condition, packet)); };
  const auto ask_condition = [&](const Condition& condition) { ask(condition); };
  if (rule.source)
    ask_condition(AddressCondition{.direction = Direction::src,
                                   .prefix = rule.source->prefix,
                                   .negated = rule.source->negated});
  if (rule.destination) ask_condition(AddressCondition{.prefix = *rule.destination});
  if (const auto& link = rule.in_interface)
    ask_condition(LinkCondition{Direction::src, link->name, link->is_prefix, link->negated});
  if (rule.protocol)
    ask_condition(ProtocolCondition{.number = static_cast<std::uint16_t>(*rule.protocol)});
  for (const auto& match : rule.matches) ask(match);
  if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target))
    for (const auto& condition : foreign->conditions) ask(condition);
  return all;
}

// Targets of our vocabulary that are no actions translate, and stand in no table filter.
struct ActionOf {
  Action operator()(const ForeignTarget& target) const { return target.action; }
  Action operator()(Verdict verdict) const { return verdict; }
  Action operator()(const JumpTarget& target) const { return target; }
  Action operator()(const RejectTarget& target) const { return target; }
  Action operator()(const auto& /*other*/) const { return NoAction{}; }
};

WalkEnds walk_legacy(const WholeTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget) {
  const auto find = [&](const std::string& name) -> std::optional<ChainRules> {
    const auto found = table.chains.find(name);
    if (found == table.chains.end()) return std::nullopt;
    return ChainRules{.size = found->second.size(), .outcome = [&packet, found](std::size_t i) {
                        const auto& rule = found->second[i];
                        RuleOutcome outcome{.holds = rule_holds(rule, packet), .leads = {}};
                        if (outcome.holds != Truth::no)
                          outcome.leads.push_back(std::visit(ActionOf{}, rule.target));
                        outcome.untracks =
                            std::ranges::any_of(outcome.leads, [](const Action& action) {
                              return std::holds_alternative<NoTrackAction>(action);
                            });
                        return outcome;
                      }};
  };
  return walk_chain(find, chain, policy_accepts, budget);
}

}  // namespace

FirewallFate fate_in(const WholeTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget) {
  return fate_of(walk_legacy(table, chain, policy_accepts, packet, budget));
}

bool untracks_in(const WholeTable& table, const std::string& chain, const FirewallPacket& packet,
                 LookBudget& budget) {
  return walk_legacy(table, chain, true, packet, budget).can_untrack;
}

}  // namespace ipvsproxier::ipset
