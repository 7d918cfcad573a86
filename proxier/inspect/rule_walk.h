#pragma once

// What the rules of one built-in chain, and of the chains to which they lead, do to one packet: an
// evaluator of iptables rules as values. Pure but for what `is_local` does; any thread.
//
// A rule that is not in our vocabulary, or asks for a set that could not be read, cannot be judged:
// it is recorded and taken as not matching.

#include <functional>
#include <string>
#include <vector>

#include "proxier/inspect/packet.h"

namespace ipvsproxier::inspect {

// A rule that matched, or could not be judged. Jumps to chains in which none did are left out.
struct RuleHit {
  std::string chain;
  std::string rule;   // as iptables-save prints it, without comment; "policy DROP" for a policy
  std::string found;  // set elements that matched: "KUBE-CLUSTER-IP has 10.96.0.1,tcp:443"
  bool unjudged = false;
  bool decides = false;  // this rule ended the walk

  friend bool operator==(const RuleHit&, const RuleHit&) = default;
};

enum class ChainEnd : std::uint8_t { accepted, dropped, rejected, masqueraded };

struct ChainWalk {
  ChainEnd end = ChainEnd::accepted;
  std::vector<RuleHit> hits;
  // If a rule set the packet's mark: the rule that led there and what it found.
  std::string marked_because;
};

// Whether an address is one of this host's, as the kernel's addrtype match sees it.
using IsLocal = std::function<bool(const netlink::IpAddress&)>;

// Changes the packet's mark as the rules do. A chain that is not there accepts.
ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local);

// The element of the set that holds the packet, looked up with these directions; nullptr for none.
const ipset::Element* find_element(const std::set<ipset::Element>& set,
                                   const std::vector<ipset::Direction>& directions,
                                   const Packet& packet);

}  // namespace ipvsproxier::inspect
