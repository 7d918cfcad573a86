#include "ipset/judge/rule_judge.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/foreign_rules.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {

using netlink::IpAddress;

namespace {

// Whether the element contains the packet. As in the kernel, false if the set has more dimensions
// than the rule names.
struct ElementHolds {
  const std::vector<Direction>& directions;
  const Packet& packet;

  bool has(std::size_t dimensions) const { return directions.size() >= dimensions; }
  bool ip(const IpAddress& address) const { return address_at(packet, directions[0]) == address; }
  bool ip_port(const auto& element) const {
    return has(2) && ip(element.ip) && packet.protocol == element.protocol &&
           port_at(packet, directions[1]) == element.port;
  }

  bool operator()(const IpElement& element) const { return has(1) && ip(element.ip); }
  bool operator()(const PortElement& element) const {
    return has(1) && port_at(packet, directions[0]) == element.port;
  }
  bool operator()(const IpPortElement& element) const { return ip_port(element); }
  bool operator()(const IpPortIpElement& element) const {
    return has(3) && ip_port(element) && address_at(packet, directions[2]) == element.ip2;
  }
  bool operator()(const IpPortNetElement& element) const {
    return has(3) && ip_port(element) && element.net.contains(address_at(packet, directions[2]));
  }
  bool operator()(const RangesElement& element) const {
    return has(3) && ip_port(element) &&
           std::ranges::any_of(element.ranges, [&](const IpPrefix& range) {
             return range.contains(address_at(packet, directions[2]));
           });
  }
  bool operator()(const ServiceElement& element) const { return ip_port(element); }
  bool operator()(const DestinationElement& element) const { return ip_port(element); }
};

// conntrack_mt() in net/netfilter/xt_conntrack.c. A first packet has the state NEW.
unsigned states_of(const Packet& packet) {
  using State = StateCondition;
  if (packet.tracking == Tracking::not_yet) return State::kInvalid;
  if (packet.tracking == Tracking::never) return State::kUntracked;
  unsigned states = packet.established ? State::kEstablished : State::kNew;
  if (packet.source_translated) states |= State::kSourceTranslated;
  if (packet.destination_translated) states |= State::kDestinationTranslated;
  return states;
}

// Whether the packet has one of these states.
Answer has_state(const Packet& packet, unsigned asked) {
  constexpr unsigned kTranslations =
      StateCondition::kSourceTranslated | StateCondition::kDestinationTranslated;
  if (packet.tracking == Tracking::unknown) return Answer::unknown;
  const auto states = states_of(packet);
  const bool is_tracked = packet.tracking == Tracking::tracked;
  if (packet.status_known || !is_tracked) return answer_of((states & asked) != 0);
  if ((states & asked & ~kTranslations) != 0) return Answer::yes;
  return (asked & kTranslations) != 0 ? Answer::unknown : Answer::no;
}

Answer has_mark(std::uint32_t mark, std::uint32_t known, const MarkMatch& match) {
  if (((mark ^ match.value) & match.mask & known) != 0 || (match.value & ~match.mask) != 0)
    return answer_of(false, match.negated);
  return (match.mask & ~known) != 0 ? Answer::unknown : answer_of(true, match.negated);
}

Answer has_link(const Packet& packet, const LinkCondition& wanted) {
  const bool is_in = wanted.direction == Direction::src;
  const auto& link = is_in ? packet.in_link : packet.out_link;
  if (wanted.name.empty()) return answer_of(true, wanted.negated);
  switch (is_in ? packet.in_link_is : packet.out_link_is) {
    case LinkFact::named:
      return answer_of(wanted.is_prefix ? link.starts_with(wanted.name) : link == wanted.name,
                       wanted.negated);
    case LinkFact::unnamed:
      return answer_of(false, wanted.negated);
    case LinkFact::not_loopback:
      if (wanted.name == "lo" && !wanted.is_prefix) return answer_of(false, wanted.negated);
      break;
    case LinkFact::unknown:
      break;
  }
  return Answer::unknown;
}

Answer has_address(const Packet& packet, Direction direction, const netlink::IpPrefix& prefix,
                   bool negated = false) {
  const auto& address = address_at(packet, direction);
  if (prefix.length == 0) return answer_of(true, negated);
  if (address.is_any()) return Answer::unknown;
  return answer_of(prefix.contains(address), negated);
}

bool has_port(const std::vector<PortRange>& ranges, std::uint16_t port) {
  return std::ranges::any_of(
      ranges, [&](const PortRange& range) { return port >= range.first && port <= range.last; });
}

bool is_multicast(const IpAddress& address) {
  const auto first = address.bytes()[0];
  return address.family() == netlink::Family::ipv4 ? (first & 0xf0) == 0xe0 : first == 0xff;
}

using AddressType = AddressTypeCondition;

// Whether it is this set of nf_tables, of any family.
bool is_set(const std::string& name, SetId id) {
  return std::ranges::any_of(netlink::kFamilies,
                             [&](netlink::Family family) { return name == set_name(id, family); });
}

std::string ranges_of(const Packet& packet) {
  return set_name(SetId::nft_source_ranges, packet.destination.family());
}

// Whether the source is in a range of the virtual service; nullopt: that has no ranges.
std::optional<bool> is_within(const std::set<Element>& ranges, const Packet& packet) {
  const std::vector<Direction> key{Direction::dst, Direction::dst, Direction::src};
  if (find_element(ranges, key, packet) != nullptr) return true;
  const bool restricted = std::ranges::any_of(ranges, [&](const Element& element) {
    const auto* const one = std::get_if<RangesElement>(&element);
    return one != nullptr && one->ip == packet.destination && one->protocol == packet.protocol &&
           one->port == packet.destination_port;
  });
  return restricted ? std::optional(false) : std::nullopt;
}

struct PartJudge {
  const NodeFacts& facts;
  const Packet& packet;
  std::string& found;

  // --- conditions of our vocabulary

  Answer operator()(const SetMatch& match) const {
    if (!match.negated) return in_set(match);
    std::string ignored;
    return inverted(PartJudge{facts, packet, ignored}.in_set(match));
  }
  Answer in_set(const SetMatch& match) const {
    if (is_set(match.set, SetId::nft_hairpins) && packet.source != packet.destination)
      return Answer::no;
    const bool is_open = std::ranges::any_of(match.directions, [this](Direction direction) {
      return address_at(packet, direction).is_any();
    });
    if (is_open) return Answer::unknown;
    if (const auto* const nets = facts.nets(match.set)) return in_nets(*nets, match);
    const auto* const set = facts.set(match.set);
    if (set == nullptr) return Answer::unknown;
    const auto* const element = find_element(*set, match.directions, packet);
    if (element == nullptr) return Answer::no;
    if (!found.empty()) found += ", ";
    found += fmt::format("{} has {}", match.set, to_string(*element));
    return Answer::yes;
  }
  Answer operator()(const MarkMatch& match) const {
    return has_mark(packet.mark, packet.mark_known, match);
  }
  Answer operator()(const ConntrackStateMatch& match) const {
    unsigned states = match.is_new ? StateCondition::kNew : 0;
    if (match.established) states |= StateCondition::kEstablished;
    if (match.invalid) states |= StateCondition::kInvalid;
    return has_state(packet, states);
  }
  Answer operator()(const LocalAddressMatch& match) const {
    return inverted(facts.is_local(packet, match.direction, Limit::none), match.negated);
  }
  Answer operator()(const BridgePortInMatch& match) const {
    if (packet.in_link_is != LinkFact::named) return Answer::unknown;
    return answer_of(packet.in_bridge_port, match.negated);
  }
  Answer operator()(const IpvsMatch& match) const {
    if (packet.is_answer) return Answer::unknown;
    return answer_of(packet.connection && packet.connection->protocol == match.protocol &&
                     packet.connection->address == match.address &&
                     packet.connection->port == match.port);
  }
  Answer operator()(const EchoRequestMatch&) const { return Answer::no; }
  // An unknown port may match.
  Answer operator()(const DestinationPortMatch& match) const {
    const auto port = packet.destination_port;
    if (packet.protocol != match.protocol) return Answer::no;
    if (port == 0) return Answer::unknown;
    return answer_of(port >= match.first && port <= match.last);
  }
  Answer operator()(const ConfirmedMatch& match) const {
    if (!packet.status_known) return Answer::unknown;
    return answer_of(packet.confirmed, match.negated);
  }
  // What it decides about changes nothing of where this packet goes.
  Answer operator()(const UntranslatedMatch&) const { return Answer::yes; }
  Answer operator()(const OutsideMatch& match) const {
    auto all = Answer::yes;
    for (const auto& prefix : match.prefixes)
      all = std::min(all, has_address(packet, Direction::src, prefix, true));
    return all;
  }

  Answer operator()(const DestinationMapTarget& target) const {
    const auto* const set = facts.set(target.map);
    if (set == nullptr) return Answer::unknown;
    const auto* const element = find_element(*set, {Direction::dst, Direction::dst}, packet);
    if (element == nullptr) return Answer::no;
    found += fmt::format("{} has {}", target.map, to_string(*element));
    return Answer::yes;
  }

  // Whether the map has a verdict for the packet. That of source ranges has one for each virtual
  // service that is in it, but those within the ranges go on.
  Answer operator()(const VerdictMapTarget& target) const {
    const auto* const set = facts.set(target.map);
    if (set == nullptr) return Answer::unknown;
    if (is_set(target.map, SetId::nft_source_ranges)) return outside_ranges(*set, target.map);
    const auto* const element = find_element(*set, {Direction::dst, Direction::dst}, packet);
    if (element == nullptr) return Answer::no;
    const auto* const service = std::get_if<ServiceElement>(element);
    found += fmt::format("{} has {}", target.map, to_string(*element));
    if (service != nullptr && service->restricted) {
      const auto name = ranges_of(packet);
      const auto* const ranges = facts.set(name);
      if (ranges == nullptr) return Answer::unknown;
      outside_ranges(*ranges, name);
    }
    const bool ours = service != nullptr && service->verdict != ServiceVerdict::foreign;
    return ours ? Answer::yes : Answer::unknown;
  }

  // --- conditions of other programs' rules

  Answer operator()(const UnknownCondition&) const { return Answer::unknown; }
  Answer operator()(const IpvsCondition& condition) const {
    return answer_of(packet.connection.has_value(), condition.negated);
  }
  Answer operator()(const FixedCondition& condition) const {
    if (condition.of_first && packet.established) return Answer::unknown;
    return answer_of(condition.holds);
  }
  Answer operator()(const AddressCondition& condition) const {
    return has_address(packet, condition.direction, condition.prefix, condition.negated);
  }
  Answer operator()(const LinkCondition& condition) const { return has_link(packet, condition); }
  Answer operator()(const ProtocolCondition& condition) const {
    return answer_of(condition.number == static_cast<std::uint16_t>(packet.protocol),
                     condition.negated);
  }
  Answer operator()(const PortCondition& condition) const {
    auto any = Answer::no;
    for (const auto direction : condition.directions) {
      const auto port = port_at(packet, direction);
      // An unknown port may match.
      any =
          std::max(any, port == 0 ? Answer::unknown : answer_of(has_port(condition.ranges, port)));
    }
    return inverted(any, condition.negated);
  }
  Answer operator()(const StateCondition& condition) const {
    return inverted(has_state(packet, condition.states), condition.negated);
  }
  // An untracked packet has no connection mark.
  Answer operator()(const ConnectionMarkCondition& condition) const {
    if (packet.tracking == Tracking::unknown) return Answer::unknown;
    if (packet.tracking != Tracking::tracked) return Answer::no;
    return has_mark(packet.connection_mark, packet.connection_mark_known, condition.mark);
  }
  // net/netfilter/xt_addrtype.c: match_type() compares the single type of an IPv4 address,
  // match_type6() checks several conditions one after the other.
  Answer operator()(const AddressTypeCondition& condition) const {
    constexpr unsigned kKnown = AddressType::kUnicast | AddressType::kLocal |
                                AddressType::kBroadcast | AddressType::kMulticast;
    const auto& address = address_at(packet, condition.direction);
    const unsigned types = condition.types;
    if (packet.family() == netlink::Family::ipv4) {
      const auto type = type_of(condition.direction, condition.limit);
      const bool has = type && (types & *type) != 0;
      if (!type || (!has && (types & ~kKnown) != 0)) return Answer::unknown;
      return answer_of(has, condition.negated);
    }
    if ((types & ~kKnown) != 0) return Answer::unknown;
    const auto local = facts.is_local(packet, condition.direction, condition.limit);
    // A local address is no group.
    const auto group = !address.is_any()      ? answer_of(is_multicast(address))
                       : local == Answer::yes ? Answer::no
                                              : Answer::unknown;
    auto has = (types & AddressType::kMulticast) == 0 ? Answer::yes : group;
    if ((types & AddressType::kUnicast) != 0) has = std::min(has, inverted(group));
    if ((types & AddressType::kLocal) != 0) has = std::min(has, local);
    return inverted(has, condition.negated);
  }

  using Limit = AddressType::Limit;

  std::optional<unsigned> type_of(Direction direction, Limit limit) const {
    const auto& address = address_at(packet, direction);
    const auto local = facts.is_local(packet, direction, limit);
    if (local == Answer::yes) return AddressType::kLocal;
    if (local == Answer::unknown || address.is_any()) return std::nullopt;
    if (is_multicast(address)) return AddressType::kMulticast;
    const auto broadcast = facts.is_broadcast(address);
    if (broadcast == Answer::unknown) return std::nullopt;
    return broadcast == Answer::yes ? AddressType::kBroadcast : AddressType::kUnicast;
  }

 private:
  Answer outside_ranges(const std::set<Element>& ranges, const std::string& map) const {
    if (is_within(ranges, packet).value_or(true)) return Answer::no;
    found += fmt::format("{}{} has no range of {} with {}", found.empty() ? "" : ", ", map,
                         netlink::to_string(packet.destination, packet.destination_port),
                         packet.source.to_string());
    return Answer::yes;
  }

  Answer in_nets(const std::vector<NetMember>& nets, const SetMatch& match) const {
    const NetMember* longest = nullptr;
    const auto& address = address_at(packet, match.directions[0]);
    for (const auto& one : nets)
      if (one.net.contains(address) && (longest == nullptr || one.net.length > longest->net.length))
        longest = &one;
    if (longest == nullptr || longest->excepted) return Answer::no;
    if (!found.empty()) found += ", ";
    found += fmt::format("{} has {}", match.set, longest->net.to_string());
    return Answer::yes;
  }
};

// What the map does with a packet that PartJudge says it has a verdict for: it goes to the chain of
// its virtual service's verdict, or is dropped for its source.
Action verdict_in(const NodeFacts& facts, const std::string& map, const Packet& packet) {
  if (is_set(map, SetId::nft_source_ranges)) return Verdict::drop;
  const auto* const set = facts.set(map);
  if (set == nullptr) return UnknownAction{};
  const auto* const element = find_element(*set, {Direction::dst, Direction::dst}, packet);
  const auto* const service = element == nullptr ? nullptr : std::get_if<ServiceElement>(element);
  if (service == nullptr) return UnknownAction{};
  const GotoAction chain{std::string(chain_of(service->verdict))};
  if (!service->restricted) return chain;
  // The chains of its own drop the packet, or lead to the same.
  const auto* const ranges = facts.set(ranges_of(packet));
  if (ranges == nullptr) return UnknownAction{};
  if (!is_within(*ranges, packet).value_or(true)) return Verdict::drop;
  if (service->verdict == ServiceVerdict::keep) return Verdict::return_;
  return chain;
}

// Where the map of destinations sends such a packet.
Action translation_in(const NodeFacts& facts, const std::string& map, const Packet& packet) {
  const auto* const set = facts.set(map);
  if (set == nullptr) return UnknownAction{};
  const auto* const element = find_element(*set, {Direction::dst, Direction::dst}, packet);
  const auto* const destination =
      element == nullptr ? nullptr : std::get_if<DestinationElement>(element);
  if (destination == nullptr) return UnknownAction{};
  return TranslateAction{.direction = Direction::dst,
                         .address = destination->to,
                         .port = destination->to_port,
                         .to_here = false};
}

struct ActionOf {
  const NodeFacts& facts;
  const Packet& packet;

  Action operator()(const ForeignTarget& foreign) const { return foreign.action; }
  Action operator()(const VerdictMapTarget& target) const {
    return verdict_in(facts, target.map, packet);
  }
  Action operator()(const KeepDestinationTarget&) const { return Verdict::accept; }
  Action operator()(const DestinationMapTarget& target) const {
    return translation_in(facts, target.map, packet);
  }
  Action operator()(const auto& ours) const { return action_of_target(ours); }
};

}  // namespace

const Element* find_element(const std::set<Element>& set, const std::vector<Direction>& directions,
                            const Packet& packet) {
  const auto found = std::find_if(set.begin(), set.end(), [&](const Element& element) {
    return std::visit(ElementHolds{directions, packet}, element);
  });
  return found == set.end() ? nullptr : &*found;
}

void add_action(Action action, RuleOutcome& outcome) {
  if (std::holds_alternative<NoAction>(action)) return;
  if (std::holds_alternative<UnknownAction>(action))
    outcome.answer = std::min(outcome.answer, Answer::unknown);
  const bool is_effect = std::holds_alternative<MarkTarget>(action) ||
                         std::holds_alternative<ConnectionMarkAction>(action) ||
                         std::holds_alternative<NoTrackAction>(action);
  (is_effect ? outcome.effects : outcome.leads).push_back(std::move(action));
}

Answer RuleJudge::match(const Match& match, std::string& found) const {
  return std::visit(PartJudge{facts_, packet_, found}, match);
}

Answer RuleJudge::condition(const Condition& condition, std::string& found) const {
  return std::visit(PartJudge{facts_, packet_, found}, condition);
}

std::optional<unsigned> RuleJudge::address_type(Direction direction,
                                                AddressTypeCondition::Limit limit) const {
  std::string nothing;
  return PartJudge{facts_, packet_, nothing}.type_of(direction, limit);
}

Answer RuleJudge::holds(const Rule& rule, std::string& found) const {
  const PartJudge judge{facts_, packet_, found};
  auto all = Answer::yes;
  const auto fails = [&](Answer one) {
    all = std::min(all, one);
    return all == Answer::no;
  };
  if (rule.protocol && *rule.protocol != packet_.protocol) return Answer::no;
  if (const auto& source = rule.source;
      source && fails(has_address(packet_, Direction::src, source->prefix, source->negated)))
    return all;
  if (rule.destination && fails(has_address(packet_, Direction::dst, *rule.destination)))
    return all;
  if (const auto& link = rule.in_interface;
      link &&
      fails(has_link(packet_, {Direction::src, link->name, link->is_prefix, link->negated})))
    return all;
  if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target))
    for (const auto& condition : foreign->conditions)
      if (fails(std::visit(judge, condition))) return all;
  for (const auto& match : rule.matches)
    if (fails(std::visit(judge, match))) return all;
  if (const auto* map = std::get_if<VerdictMapTarget>(&rule.target); map && fails(judge(*map)))
    return all;
  if (const auto* map = std::get_if<DestinationMapTarget>(&rule.target)) fails(judge(*map));
  return all;
}

RuleOutcome RuleJudge::outcome(const Rule& rule) const {
  RuleOutcome outcome;
  const auto* foreign = std::get_if<ForeignTarget>(&rule.target);
  if (foreign != nullptr && std::holds_alternative<NoAction>(foreign->action)) return outcome;
  outcome.answer = holds(rule, outcome.found);
  if (outcome.answer == Answer::no) return outcome;
  add_action(std::visit(ActionOf{facts_, packet_}, rule.target), outcome);
  outcome.settles = std::holds_alternative<KeepDestinationTarget>(rule.target);
  return outcome;
}

}  // namespace ipvsproxier::ipset
