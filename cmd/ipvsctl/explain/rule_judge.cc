#include "cmd/ipvsctl/explain/rule_judge.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

using ipset::Direction;
using ipset::Element;
using ipset::SetId;
using netlink::IpAddress;

namespace {

const IpAddress& address_at(const Packet& packet, Direction direction) {
  return direction == Direction::src ? packet.source : packet.destination;
}
std::uint16_t port_at(const Packet& packet, Direction direction) {
  return direction == Direction::src ? packet.source_port : packet.destination_port;
}

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

  bool operator()(const ipset::IpElement& element) const { return has(1) && ip(element.ip); }
  bool operator()(const ipset::PortElement& element) const {
    return has(1) && port_at(packet, directions[0]) == element.port;
  }
  bool operator()(const ipset::IpPortElement& element) const { return ip_port(element); }
  bool operator()(const ipset::IpPortIpElement& element) const {
    return has(3) && ip_port(element) && address_at(packet, directions[2]) == element.ip2;
  }
  bool operator()(const ipset::IpPortNetElement& element) const {
    return has(3) && ip_port(element) && element.net.contains(address_at(packet, directions[2]));
  }
  bool operator()(const ipset::ServiceElement& element) const { return ip_port(element); }
  bool operator()(const ipset::DestinationElement& element) const { return ip_port(element); }
};

Answer answer(bool value, bool negated = false) {
  return value != negated ? Answer::yes : Answer::no;
}

Answer inverse(Answer given) {
  if (given == Answer::unknown) return given;
  return given == Answer::yes ? Answer::no : Answer::yes;
}

// conntrack_mt() in net/netfilter/xt_conntrack.c. A first packet has the state NEW.
unsigned states_of(const Packet& packet) {
  using State = ipset::StateCondition;
  if (packet.tracking == Tracking::not_yet) return State::kInvalid;
  if (packet.tracking == Tracking::never) return State::kUntracked;
  unsigned states = packet.established ? State::kEstablished : State::kNew;
  if (packet.source_translated) states |= State::kSourceTranslated;
  if (packet.destination_translated) states |= State::kDestinationTranslated;
  return states;
}

bool link_matches(const std::string& wanted, bool is_prefix, const std::string& link) {
  return is_prefix ? link.starts_with(wanted) : link == wanted;
}

bool has_port(const std::vector<ipset::PortRange>& ranges, std::uint16_t port) {
  return std::ranges::any_of(ranges, [&](const ipset::PortRange& range) {
    return port >= range.first && port <= range.last;
  });
}

bool is_multicast(const IpAddress& address) {
  const auto first = address.bytes()[0];
  return address.family() == netlink::Family::ipv4 ? (first & 0xf0) == 0xe0 : first == 0xff;
}

using Type = ipset::AddressTypeCondition;

// Whether it is this set of nf_tables, of any family.
bool is_set(const std::string& name, SetId id) {
  return std::ranges::any_of(netlink::kFamilies, [&](netlink::Family family) {
    return name == ipset::set_name(id, family);
  });
}

std::string ranges_of(const Packet& packet) {
  return ipset::set_name(SetId::nft_source_ranges, packet.destination.family());
}

// Whether the source is in a range of the virtual service; nullopt: that has no ranges.
std::optional<bool> is_within(const std::set<Element>& ranges, const Packet& packet) {
  const std::vector<Direction> key{Direction::dst, Direction::dst, Direction::src};
  if (find_element(ranges, key, packet) != nullptr) return true;
  const bool restricted = std::ranges::any_of(ranges, [&](const Element& element) {
    const auto* const range = std::get_if<ipset::IpPortNetElement>(&element);
    return range != nullptr && range->ip == packet.destination &&
           range->protocol == packet.protocol && range->port == packet.destination_port;
  });
  return restricted ? std::optional(false) : std::nullopt;
}

struct PartJudge {
  const NodeReading& node;
  const Packet& packet;
  const IsLocal& is_local;
  std::string& found;

  // --- conditions of our vocabulary

  Answer operator()(const ipset::SetMatch& match) const {
    if (!match.negated) return in_set(match);
    std::string ignored;
    return inverse(PartJudge{node, packet, is_local, ignored}.in_set(match));
  }
  Answer in_set(const ipset::SetMatch& match) const {
    if (is_set(match.set, SetId::nft_hairpins) && packet.source != packet.destination)
      return Answer::no;
    if (const auto nets = node.net_sets.find(match.set); nets != node.net_sets.end())
      return in_nets(nets->second, match);
    const auto set = node.sets.find(match.set);
    if (set == node.sets.end()) return Answer::unknown;
    const auto* const element = find_element(set->second, match.directions, packet);
    if (element == nullptr) return Answer::no;
    if (!found.empty()) found += ", ";
    found += fmt::format("{} has {}", match.set, ipset::to_string(*element));
    return Answer::yes;
  }
  Answer operator()(const ipset::MarkMatch& match) const {
    return answer((packet.mark & match.mask) == match.value, match.negated);
  }
  Answer operator()(const ipset::ConntrackStateMatch& match) const {
    return answer((packet.established ? match.established : match.is_new) &&
                  packet.tracking == Tracking::tracked);
  }
  Answer operator()(const ipset::LocalAddressMatch& match) const {
    return answer(is_local(address_at(packet, match.direction)), match.negated);
  }
  Answer operator()(const ipset::BridgePortInMatch& match) const {
    return answer(packet.in_bridge_port, match.negated);
  }
  Answer operator()(const ipset::IpvsMatch& match) const {
    return answer(packet.connection && packet.connection->protocol == match.protocol &&
                  packet.connection->address == match.address &&
                  packet.connection->port == match.port);
  }
  Answer operator()(const ipset::EchoRequestMatch&) const { return Answer::no; }
  // An unknown port may match.
  Answer operator()(const ipset::DestinationPortMatch& match) const {
    const auto port = packet.destination_port;
    if (packet.protocol != match.protocol) return Answer::no;
    if (port == 0) return Answer::unknown;
    return answer(port >= match.first && port <= match.last);
  }
  Answer operator()(const ipset::ConfirmedMatch& match) const {
    return answer(packet.confirmed, match.negated);
  }
  // What it decides about changes nothing of where this packet goes.
  Answer operator()(const ipset::UntranslatedMatch&) const { return Answer::yes; }
  Answer operator()(const ipset::OutsideMatch& match) const {
    return answer(std::ranges::none_of(match.prefixes, [&](const netlink::IpPrefix& prefix) {
      return prefix.contains(packet.source);
    }));
  }

  Answer operator()(const ipset::DestinationMapTarget& target) const {
    const auto set = node.sets.find(target.map);
    if (set == node.sets.end()) return Answer::unknown;
    const auto* const element = find_element(set->second, {Direction::dst, Direction::dst}, packet);
    if (element == nullptr) return Answer::no;
    found += fmt::format("{} has {}", target.map, ipset::to_string(*element));
    return Answer::yes;
  }

  // Whether the map has a verdict for the packet. That of source ranges has one for each virtual
  // service that is in it, but those within the ranges go on.
  Answer operator()(const ipset::VerdictMapTarget& target) const {
    const auto set = node.sets.find(target.map);
    if (set == node.sets.end()) return Answer::unknown;
    if (is_set(target.map, SetId::nft_source_ranges))
      return outside_ranges(set->second, target.map);
    const auto* const element = find_element(set->second, {Direction::dst, Direction::dst}, packet);
    if (element == nullptr) return Answer::no;
    const auto* const service = std::get_if<ipset::ServiceElement>(element);
    found += fmt::format("{} has {}", target.map, ipset::to_string(*element));
    if (service != nullptr && service->restricted) {
      const auto ranges = node.sets.find(ranges_of(packet));
      if (ranges == node.sets.end()) return Answer::unknown;
      outside_ranges(ranges->second, ranges->first);
    }
    const bool ours = service != nullptr && service->verdict != ipset::ServiceVerdict::foreign;
    return ours ? Answer::yes : Answer::unknown;
  }

  // --- conditions of other programs' rules

  Answer operator()(const ipset::UnknownCondition&) const { return Answer::unknown; }
  Answer operator()(const ipset::IpvsCondition& condition) const {
    return answer(packet.connection.has_value(), condition.negated);
  }
  Answer operator()(const ipset::FixedCondition& condition) const {
    return answer(condition.holds);
  }
  Answer operator()(const ipset::AddressCondition& condition) const {
    return answer(condition.prefix.contains(address_at(packet, condition.direction)),
                  condition.negated);
  }
  Answer operator()(const ipset::LinkCondition& condition) const {
    const auto& link = condition.direction == Direction::src ? packet.in_link : packet.out_link;
    return answer(link_matches(condition.name, condition.is_prefix, link), condition.negated);
  }
  Answer operator()(const ipset::ProtocolCondition& condition) const {
    return answer(condition.number == static_cast<std::uint16_t>(packet.protocol),
                  condition.negated);
  }
  Answer operator()(const ipset::PortCondition& condition) const {
    auto result = Answer::no;
    for (const auto direction : condition.directions) {
      const auto port = port_at(packet, direction);
      // An unknown port may match.
      if (port == 0)
        result = Answer::unknown;
      else if (has_port(condition.ranges, port))
        return answer(true, condition.negated);
    }
    return condition.negated ? inverse(result) : result;
  }
  Answer operator()(const ipset::StateCondition& condition) const {
    return answer((states_of(packet) & condition.states) != 0, condition.negated);
  }
  // An untracked packet has no connection mark.
  Answer operator()(const ipset::ConnectionMarkCondition& condition) const {
    if (packet.tracking != Tracking::tracked) return Answer::no;
    const auto& mark = condition.mark;
    return answer((packet.connection_mark & mark.mask) == mark.value, mark.negated);
  }
  // net/netfilter/xt_addrtype.c: match_type() compares the single type of an IPv4 address,
  // match_type6() checks several conditions one after the other.
  Answer operator()(const ipset::AddressTypeCondition& condition) const {
    constexpr unsigned kKnown = Type::kUnicast | Type::kLocal | Type::kBroadcast | Type::kMulticast;
    const auto& address = address_at(packet, condition.direction);
    const unsigned types = condition.types;
    if (address.family() == netlink::Family::ipv4) {
      const bool has = (types & type_of(address, condition.limit)) != 0;
      if (!has && (types & ~kKnown) != 0) return Answer::unknown;
      return answer(has, condition.negated);
    }
    if ((types & ~kKnown) != 0) return Answer::unknown;
    const bool group = is_multicast(address);
    bool has = (types & Type::kMulticast) == 0 || group;
    has = has && ((types & Type::kUnicast) == 0 || !group);
    has = has && ((types & Type::kLocal) == 0 || is_local_at(address, condition.limit));
    return answer(has, condition.negated);
  }

  using Limit = Type::Limit;

  unsigned type_of(const IpAddress& address, Limit limit) const {
    if (is_local_at(address, limit)) return Type::kLocal;
    if (is_multicast(address)) return Type::kMulticast;
    return is_broadcast(address) ? Type::kBroadcast : Type::kUnicast;
  }

 private:
  Answer outside_ranges(const std::set<Element>& ranges, const std::string& map) const {
    if (is_within(ranges, packet).value_or(true)) return Answer::no;
    found += fmt::format("{}{} has no range of {} with {}", found.empty() ? "" : ", ", map,
                         netlink::to_string(packet.destination, packet.destination_port),
                         packet.source.to_string());
    return Answer::yes;
  }

  Answer in_nets(const std::vector<ipset::NetMember>& nets, const ipset::SetMatch& match) const {
    const ipset::NetMember* longest = nullptr;
    const auto& address = address_at(packet, match.directions[0]);
    for (const auto& one : nets)
      if (one.net.contains(address) && (longest == nullptr || one.net.length > longest->net.length))
        longest = &one;
    if (longest == nullptr || longest->excepted) return Answer::no;
    if (!found.empty()) found += ", ";
    found += fmt::format("{} has {}", match.set, longest->net.to_string());
    return Answer::yes;
  }

  // With a limit: whether it is an address of that link.
  bool is_local_at(const IpAddress& address, Limit limit) const {
    if (limit == Limit::none) return is_local(address);
    const auto& name = limit == Limit::in_link ? packet.in_link : packet.out_link;
    const auto link = std::ranges::find(node.links, name, &netlink::LinkRecord::name);
    if (link == node.links.end()) return false;
    return std::ranges::any_of(node.addresses, [&](const netlink::AddressRecord& record) {
      return record.link_index == link->index && record.address == address;
    });
  }

  bool is_broadcast(const IpAddress& address) const {
    if (address == IpAddress::v4(0xffffffff)) return true;
    return std::ranges::any_of(node.addresses, [&](const netlink::AddressRecord& record) {
      if (record.address.family() != netlink::Family::ipv4 || record.prefix_length >= 31)
        return false;
      const auto subnet = netlink::IpPrefix::of(record.address, record.prefix_length);
      const auto host_bits = 0xffffffffU >> record.prefix_length;
      std::uint32_t network = 0;
      for (const auto byte : subnet.address.bytes()) network = network << 8 | byte;
      return IpAddress::v4(network | host_bits) == address;
    });
  }
};

}  // namespace

ipset::Action verdict_in(const NodeReading& node, const std::string& map, const Packet& packet) {
  if (is_set(map, SetId::nft_source_ranges)) return ipset::Verdict::drop;
  const auto set = node.sets.find(map);
  if (set == node.sets.end()) return ipset::UnknownAction{};
  const auto* const element = find_element(set->second, {Direction::dst, Direction::dst}, packet);
  const auto* const service =
      element == nullptr ? nullptr : std::get_if<ipset::ServiceElement>(element);
  if (service == nullptr) return ipset::UnknownAction{};
  const ipset::GotoAction chain{std::string(ipset::chain_of(service->verdict))};
  if (!service->restricted) return chain;
  // The chains of its own drop the packet, or lead to the same.
  const auto ranges = node.sets.find(ranges_of(packet));
  if (ranges == node.sets.end()) return ipset::UnknownAction{};
  if (!is_within(ranges->second, packet).value_or(true)) return ipset::Verdict::drop;
  if (service->verdict == ipset::ServiceVerdict::keep) return ipset::Verdict::return_;
  return chain;
}

ipset::Action translation_in(const NodeReading& node, const std::string& map,
                             const Packet& packet) {
  const auto set = node.sets.find(map);
  if (set == node.sets.end()) return ipset::UnknownAction{};
  const auto* const element = find_element(set->second, {Direction::dst, Direction::dst}, packet);
  const auto* const destination =
      element == nullptr ? nullptr : std::get_if<ipset::DestinationElement>(element);
  if (destination == nullptr) return ipset::UnknownAction{};
  return ipset::TranslateAction{.direction = Direction::dst,
                                .address = destination->to,
                                .port = destination->to_port,
                                .to_here = false};
}

const Element* find_element(const std::set<Element>& set, const std::vector<Direction>& directions,
                            const Packet& packet) {
  const auto found = std::find_if(set.begin(), set.end(), [&](const Element& element) {
    return std::visit(ElementHolds{directions, packet}, element);
  });
  return found == set.end() ? nullptr : &*found;
}

Answer RuleJudge::match(const ipset::Match& match, std::string& found) const {
  return std::visit(PartJudge{node_, packet_, is_local_, found}, match);
}

Answer RuleJudge::condition(const ipset::Condition& condition, std::string& found) const {
  return std::visit(PartJudge{node_, packet_, is_local_, found}, condition);
}

unsigned RuleJudge::address_type(const IpAddress& address,
                                 ipset::AddressTypeCondition::Limit limit) const {
  std::string nothing;
  return PartJudge{node_, packet_, is_local_, nothing}.type_of(address, limit);
}

Answer RuleJudge::rule(const ipset::Rule& rule, std::string& found) const {
  const PartJudge judge{node_, packet_, is_local_, found};
  if (rule.source && rule.source->prefix.contains(packet_.source) == rule.source->negated)
    return Answer::no;
  if (rule.destination && !rule.destination->contains(packet_.destination)) return Answer::no;
  if (const auto& link = rule.in_interface;
      link && link_matches(link->name, link->is_prefix, packet_.in_link) == link->negated)
    return Answer::no;
  if (rule.protocol && *rule.protocol != packet_.protocol) return Answer::no;
  const auto* foreign = std::get_if<ipset::ForeignTarget>(&rule.target);
  auto result = Answer::yes;
  const auto take = [&](Answer one) {
    if (one == Answer::unknown) result = one;
    return one != Answer::no;
  };
  if (foreign != nullptr)
    for (const auto& condition : foreign->conditions)
      if (!take(std::visit(judge, condition))) return Answer::no;
  for (const auto& match : rule.matches)
    if (!take(std::visit(judge, match))) return Answer::no;
  if (const auto* map = std::get_if<ipset::VerdictMapTarget>(&rule.target);
      map != nullptr && !take(judge(*map)))
    return Answer::no;
  if (const auto* map = std::get_if<ipset::DestinationMapTarget>(&rule.target);
      map != nullptr && !take(judge(*map)))
    return Answer::no;
  const bool known =
      foreign == nullptr || !std::holds_alternative<ipset::UnknownAction>(foreign->action);
  return known ? result : Answer::unknown;
}

}  // namespace ipvsproxier::ctl
