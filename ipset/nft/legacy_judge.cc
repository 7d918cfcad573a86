#include "ipset/nft/legacy_judge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "ipset/nft/firewall_advice.h"
#include "ipset/nft/truth.h"

namespace ipvsproxier::ipset {

namespace {

constexpr std::size_t kMostLegacyDepth = 16;

Truth holds_if(bool value, bool negated = false) {
  return truth_of(value != negated);
}

class ConditionJudge {
 public:
  explicit ConditionJudge(const FirewallPacket& packet) : packet_(packet) {}

  Truth rule(const Rule& rule) const {
    auto all = Truth::yes;
    const auto ask = [&](Truth one) { all = std::min(all, one); };
    if (rule.source) ask(address(Direction::src, rule.source->prefix, rule.source->negated));
    if (rule.destination) ask(address(Direction::dst, *rule.destination, false));
    if (const auto& link = rule.in_interface)
      ask((*this)(LinkCondition{Direction::src, link->name, link->is_prefix, link->negated}));
    if (rule.protocol) ask(holds_if(*rule.protocol == packet_.protocol));
    for (const auto& match : rule.matches) ask(std::visit(*this, match));
    if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target))
      for (const auto& condition : foreign->conditions) ask(std::visit(*this, condition));
    return all;
  }

  Truth operator()(const ConntrackStateMatch& match) const {
    return holds_if(packet_.is_new ? match.is_new : match.established);
  }
  Truth operator()(const LocalAddressMatch& match) const {
    if (match.direction == Direction::dst && packet_.to_here) return holds_if(true, match.negated);
    return Truth::maybe;
  }
  Truth operator()(const EchoRequestMatch& /*match*/) const { return Truth::no; }
  Truth operator()(const AddressCondition& condition) const {
    return address(condition.direction, condition.prefix, condition.negated);
  }
  Truth operator()(const DestinationPortMatch& match) const {
    if (match.protocol != packet_.protocol) return Truth::no;
    return (*this)(
        PortCondition{.directions = {Direction::dst}, .ranges = {{match.first, match.last}}});
  }
  Truth operator()(const LinkCondition& condition) const {
    const bool is_loopback = condition.name == "lo" && !condition.is_prefix;
    if (is_loopback && (condition.direction == Direction::dst || packet_.from_elsewhere))
      return holds_if(false, condition.negated);
    return condition.name.empty() ? holds_if(true, condition.negated) : Truth::maybe;
  }
  Truth operator()(const ProtocolCondition& condition) const {
    return holds_if(condition.number == static_cast<std::uint16_t>(packet_.protocol),
                    condition.negated);
  }
  Truth operator()(const PortCondition& condition) const {
    auto any = Truth::no;
    for (const auto direction : condition.directions) {
      const auto& port =
          direction == Direction::src ? packet_.source_port : packet_.destination_port;
      const auto has = [&](const PortRange& range) {
        return *port >= range.first && *port <= range.last;
      };
      any =
          std::max(any, port ? holds_if(std::ranges::any_of(condition.ranges, has)) : Truth::maybe);
    }
    return condition.negated ? opposite(any) : any;
  }
  Truth operator()(const StateCondition& condition) const {
    constexpr auto kTranslations =
        StateCondition::kSourceTranslated | StateCondition::kDestinationTranslated;
    const auto state = packet_.is_new ? StateCondition::kNew : StateCondition::kEstablished;
    if ((condition.states & state) != 0) return holds_if(true, condition.negated);
    const bool is_first = packet_.is_new && packet_.from_elsewhere;
    if (!is_first && (condition.states & kTranslations) != 0) return Truth::maybe;
    return holds_if(false, condition.negated);
  }
  Truth operator()(const AddressTypeCondition& condition) const {
    using Type = AddressTypeCondition;
    if (condition.direction != Direction::dst || !packet_.to_here ||
        condition.limit != Type::Limit::none)
      return Truth::maybe;
    if (condition.types == Type::kLocal) return holds_if(true, condition.negated);
    const bool has_local = (condition.types & Type::kLocal) != 0;
    if (packet_.family == netlink::Family::ipv4) return holds_if(has_local, condition.negated);
    return Truth::maybe;
  }
  Truth operator()(const IpvsCondition& condition) const {
    return holds_if(packet_.of_ipvs, condition.negated);
  }
  // Known for the first packets of connections.
  Truth operator()(const FixedCondition& condition) const {
    return packet_.is_new ? holds_if(condition.holds) : Truth::maybe;
  }
  Truth operator()(const auto& /*sets_marks_and_what_is_unknown*/) const { return Truth::maybe; }

 private:
  Truth address(Direction direction, const netlink::IpPrefix& prefix, bool negated) const {
    const auto& address = direction == Direction::src ? packet_.source : packet_.destination;
    if (prefix.length == 0) return holds_if(true, negated);
    if (!address) return Truth::maybe;
    return holds_if(prefix.contains(*address), negated);
  }

  const FirewallPacket& packet_;
};

class LegacyWalker {
 public:
  LegacyWalker(const WholeTable& table, const FirewallPacket& packet, LookBudget& budget)
      : table_(table), judge_(packet), budget_(budget) {}

  FirewallFate run(const std::string& chain, bool policy_accepts) {
    if (!walk(chain, 0)) note(policy_accepts);
    if (!can_drop_) return FirewallFate::passes;
    return can_accept_ ? FirewallFate::may_drop : FirewallFate::drops;
  }

 private:
  struct Led {
    bool ends = false;    // nothing comes back to this chain, nor to one before it
    bool leaves = false;  // the packet leaves this chain
  };

  void note(bool accepts) { (accepts ? can_accept_ : can_drop_) = true; }
  bool give_up() {
    can_accept_ = can_drop_ = true;
    return true;
  }

  // False if the packet may come back from the chain.
  bool walk(const std::string& chain, std::size_t depth) {
    const auto rules = table_.chains.find(chain);
    if (rules == table_.chains.end() || depth == kMostLegacyDepth) return give_up();
    bool may_leave = false;
    for (const auto& rule : rules->second) {
      if (!budget_.spend(2)) return give_up();
      const auto holds = judge_.rule(rule);
      if (holds == Truth::no) continue;
      const auto [ends, leaves] = follow(rule.target, depth);
      if (holds == Truth::maybe)
        may_leave = may_leave || leaves;
      else if (ends)
        return !may_leave;
      else if (leaves)
        return false;
    }
    return false;
  }

  Led follow(const Target& target, std::size_t depth) {
    if (const auto* foreign = std::get_if<ForeignTarget>(&target))
      return std::visit([&](const auto& action) { return act(action, depth); }, foreign->action);
    return std::visit([&](const auto& one) { return act(one, depth); }, target);
  }

  Led act(Verdict verdict, std::size_t /*depth*/) {
    if (verdict == Verdict::return_) return {.leaves = true};
    note(verdict == Verdict::accept);
    return {.ends = true};
  }
  Led act(const RejectTarget& /*target*/, std::size_t /*depth*/) {
    note(false);
    return {.ends = true};
  }
  Led act(const RejectAction& /*action*/, std::size_t /*depth*/) {
    note(false);
    return {.ends = true};
  }
  Led act(const JumpTarget& jump, std::size_t depth) {
    if (is_proxy_chain(jump.chain)) return {};
    return {.ends = walk(jump.chain, depth + 1)};
  }
  Led act(const GotoAction& action, std::size_t depth) {
    const bool ends = walk(action.chain, depth + 1);
    return {.ends = ends, .leaves = !ends};
  }
  Led act(const UnknownAction& /*action*/, std::size_t /*depth*/) {
    give_up();
    return {};
  }
  static Led act(const auto& /*goes_on*/, std::size_t /*depth*/) { return {}; }

  const WholeTable& table_;
  ConditionJudge judge_;
  LookBudget& budget_;
  bool can_accept_ = false;
  bool can_drop_ = false;
};

}  // namespace

FirewallFate fate_in(const WholeTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget) {
  return LegacyWalker(table, packet, budget).run(chain, policy_accepts);
}

}  // namespace ipvsproxier::ipset
