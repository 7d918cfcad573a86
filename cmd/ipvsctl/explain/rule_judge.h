#pragma once

// Decides whether a rule matches a packet, as the kernel's matches would for the first packet of a
// connection, or for a later one. Pure except for `is_local`; any thread.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet.h"

namespace ipvsproxier::ctl {

enum class Answer : std::uint8_t { no, yes, unknown };

// Whether an address is local to this host, as the kernel's addrtype match sees it.
using IsLocal = std::function<bool(const netlink::IpAddress&)>;

class RuleJudge {
 public:
  // Keeps references; the packet may change between two calls.
  RuleJudge(const NodeReading& node, const Packet& packet, const IsLocal& is_local)
      : node_(node), packet_(packet), is_local_(is_local) {}

  // `unknown` if a part of the rule, or its action, is unknown and all other parts match. `found`:
  // the set elements that matched.
  Answer rule(const ipset::Rule& rule, std::string& found) const;

  // Parts of a rule.
  Answer match(const ipset::Match& match, std::string& found) const;
  Answer condition(const ipset::Condition& condition, std::string& found) const;

  // The type of an address, a bit of AddressTypeCondition. With a limit, only addresses of that
  // link are local.
  unsigned address_type(const netlink::IpAddress& address,
                        ipset::AddressTypeCondition::Limit limit) const;

 private:
  const NodeReading& node_;
  const Packet& packet_;
  const IsLocal& is_local_;
};

// What the map does with a packet that RuleJudge::rule() says it has a verdict for: it goes to the
// chain of its virtual service's verdict, or is dropped for its source.
ipset::Action verdict_in(const NodeReading& node, const std::string& map, const Packet& packet);

// Where the map of destinations sends such a packet.
ipset::Action translation_in(const NodeReading& node, const std::string& map, const Packet& packet);

// The element of the set that contains the packet, looked up with these directions; nullptr: none.
const ipset::Element* find_element(const std::set<ipset::Element>& set,
                                   const std::vector<ipset::Direction>& directions,
                                   const Packet& packet);

}  // namespace ipvsproxier::ctl
