#pragma once

// Whether a rule matches a packet, as the kernel's matches answer for the first packet of a
// connection. Pure but for what `is_local` does; any thread.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "proxier/inspect/packet.h"

namespace ipvsproxier::inspect {

enum class Answer : std::uint8_t { no, yes, unknown };

// Whether an address is one of this host's, as the kernel's addrtype match sees it.
using IsLocal = std::function<bool(const netlink::IpAddress&)>;

class RuleJudge {
 public:
  // All of them are kept; the packet may change between two questions.
  RuleJudge(const NodeReading& node, const Packet& packet, const IsLocal& is_local)
      : node_(node), packet_(packet), is_local_(is_local) {}

  // `unknown` if one part of the rule, or what it does, is not known and all others match. `found`:
  // the set elements that matched.
  Answer rule(const ipset::Rule& rule, std::string& found) const;

 private:
  const NodeReading& node_;
  const Packet& packet_;
  const IsLocal& is_local_;
};

// The element of the set that holds the packet, looked up with these directions; nullptr for none.
const ipset::Element* find_element(const std::set<ipset::Element>& set,
                                   const std::vector<ipset::Direction>& directions,
                                   const Packet& packet);

}  // namespace ipvsproxier::inspect
