#include "proxier/inspect/rule_walk.h"

#include <algorithm>

#include <fmt/format.h>

namespace ipvsproxier::inspect {

using ipset::Direction;
using ipset::Element;
using netlink::IpAddress;

namespace {

// The address or port that one dimension of a set looks up.
const IpAddress& address_at(const Packet& packet, Direction direction) {
  return direction == Direction::src ? packet.source : packet.destination;
}
std::uint16_t port_at(const Packet& packet, Direction direction) {
  return direction == Direction::src ? packet.source_port : packet.destination_port;
}

// Whether the element holds the packet; false too where the set has more dimensions than the rule
// names, as in the kernel.
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
};

enum class Answer : std::uint8_t { no, yes, unknown };

Answer answer(bool value, bool negated = false) {
  return value != negated ? Answer::yes : Answer::no;
}

struct MatchJudge {
  const NodeReading& node;
  const Packet& packet;
  const IsLocal& is_local;
  std::string& found;

  Answer operator()(const ipset::SetMatch& match) const {
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
  // A first packet is NEW.
  Answer operator()(const ipset::ConntrackStateMatch& match) const { return answer(match.is_new); }
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
};

bool interface_matches(const ipset::InInterfaceMatch& match, const std::string& link) {
  const bool same = match.is_prefix ? link.starts_with(match.name) : link == match.name;
  return same != match.negated;
}

class ChainWalker {
 public:
  ChainWalker(const NodeReading& node, plan::TableKey table, Packet& packet,
              const IsLocal& is_local)
      : node_(node), key_(table), packet_(packet), is_local_(is_local) {}

  ChainWalk walk(const std::string& chain) && {
    const auto table = node_.tables.find(key_);
    if (table == node_.tables.end() || table->second.chains.count(chain) == 0) return {};
    table_ = &table->second;
    auto end = run(chain, 0);
    if (!end) {
      const auto policy = table_->policies.find(chain);
      const bool drops = policy != table_->policies.end() && policy->second == ipset::Verdict::drop;
      if (drops) walk_.hits.push_back({.chain = chain, .rule = "policy DROP", .decides = true});
      end = drops ? ChainEnd::dropped : ChainEnd::accepted;
    }
    walk_.end = *end;
    return std::move(walk_);
  }

 private:
  // nullopt: the packet comes back to the chain that led here.
  std::optional<ChainEnd> run(const std::string& chain, std::size_t depth) {
    const auto rules = table_->chains.find(chain);
    // The kernel takes no loops of chains; what was read may still hold one.
    if (rules == table_->chains.end() || depth > table_->chains.size()) return std::nullopt;
    for (const auto& rule : rules->second) {
      RuleHit hit{.chain = chain, .rule = text_of(rule)};
      const auto matches = judge(rule, hit.found);
      if (matches == Answer::no) continue;
      hit.unjudged = matches == Answer::unknown;
      walk_.hits.push_back(std::move(hit));
      if (matches == Answer::unknown) continue;
      const auto place = walk_.hits.size() - 1;
      if (rule.target == ipset::Target(ipset::Verdict::return_)) return std::nullopt;
      if (const auto end = apply(rule.target, place, depth)) return end;
    }
    return std::nullopt;
  }

  Answer judge(const ipset::Rule& rule, std::string& found) const {
    if (std::holds_alternative<ipset::ForeignTarget>(rule.target)) return Answer::unknown;
    if (rule.source && rule.source->prefix.contains(packet_.source) == rule.source->negated)
      return Answer::no;
    if (rule.in_interface && !interface_matches(*rule.in_interface, packet_.in_link))
      return Answer::no;
    if (rule.protocol && *rule.protocol != packet_.protocol) return Answer::no;
    auto result = Answer::yes;
    for (const auto& match : rule.matches) {
      const auto one = std::visit(MatchJudge{node_, packet_, is_local_, found}, match);
      if (one == Answer::no) return one;
      if (one == Answer::unknown) result = one;
    }
    return result;
  }

  // nullopt: the next rule is looked at.
  std::optional<ChainEnd> apply(const ipset::Target& target, std::size_t place, std::size_t depth) {
    const auto ends = [&](ChainEnd end) {
      walk_.hits[place].decides = true;
      return std::optional(end);
    };
    if (const auto* verdict = std::get_if<ipset::Verdict>(&target))
      return ends(*verdict == ipset::Verdict::drop ? ChainEnd::dropped : ChainEnd::accepted);
    if (std::holds_alternative<ipset::RejectTarget>(target)) return ends(ChainEnd::rejected);
    if (std::holds_alternative<ipset::MasqueradeTarget>(target)) return ends(ChainEnd::masqueraded);
    if (const auto* mark = std::get_if<ipset::MarkTarget>(&target)) set_mark(*mark);
    if (const auto* jump = std::get_if<ipset::JumpTarget>(&target)) {
      path_.push_back(place);
      const auto end = run(jump->chain, depth + 1);
      path_.pop_back();
      // A chain in which nothing matched is not worth a word.
      if (!end && walk_.hits.size() == place + 1) walk_.hits.pop_back();
      return end;
    }
    return std::nullopt;
  }

  void set_mark(const ipset::MarkTarget& target) {
    const auto mark = (packet_.mark & ~target.mask) ^ target.value;
    if ((mark & ~packet_.mark) != 0) walk_.marked_because = reason();
    packet_.mark = mark;
  }

  std::string text_of(ipset::Rule rule) const {
    rule.comment.clear();
    return to_string(rule, key_.family);
  }

  // Of the jumps that led to the rule that matched last, the last that found an element.
  std::string reason() const {
    const auto found = std::find_if(path_.rbegin(), path_.rend(), [&](std::size_t place) {
      return !walk_.hits[place].found.empty();
    });
    const auto& hit = found != path_.rend() ? walk_.hits[*found]
                      : path_.empty()       ? walk_.hits.back()
                                            : walk_.hits[path_.back()];
    return fmt::format("{} {}{}", hit.chain, hit.rule, hit.found.empty() ? "" : ": " + hit.found);
  }

  const NodeReading& node_;
  plan::TableKey key_;
  const ipset::WholeTable* table_ = nullptr;
  Packet& packet_;
  const IsLocal& is_local_;
  std::vector<std::size_t> path_;  // the hits whose jumps led to the current chain
  ChainWalk walk_;
};

}  // namespace

const Element* find_element(const std::set<Element>& set, const std::vector<Direction>& directions,
                            const Packet& packet) {
  const auto found = std::find_if(set.begin(), set.end(), [&](const Element& element) {
    return std::visit(ElementHolds{directions, packet}, element);
  });
  return found == set.end() ? nullptr : &*found;
}

ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local) {
  return ChainWalker(node, table, packet, is_local).walk(chain);
}

}  // namespace ipvsproxier::inspect
