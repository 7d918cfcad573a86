#include "ipset/nft/condition_judge.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

namespace ipvsproxier::ipset {

namespace {

Truth holds_if(bool value, bool negated = false) {
  return truth_of(value != negated);
}

class ConditionJudge {
 public:
  explicit ConditionJudge(const FirewallPacket& packet) : packet_(packet) {}

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

}  // namespace

Truth judge(const Match& match, const FirewallPacket& packet) {
  return std::visit(ConditionJudge(packet), match);
}

Truth judge(const Condition& condition, const FirewallPacket& packet) {
  return std::visit(ConditionJudge(packet), condition);
}

}  // namespace ipvsproxier::ipset
