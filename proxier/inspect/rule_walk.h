#pragma once

// What the rules of one built-in chain, and of the chains to which they lead, do to one packet: an
// evaluator of iptables rules as values. Pure but for what `is_local` does; any thread.
//
// A rule that asks for what is not known (time, chance, a set that could not be read), or does what
// is not known, cannot be judged if all else of it matches: it is recorded and taken as not
// matching. Rules that leave a packet as it is (LOG) are passed over.

#include <optional>
#include <string>
#include <vector>

#include "proxier/inspect/packet.h"
#include "proxier/inspect/rule_judge.h"

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

enum class ChainEnd : std::uint8_t { accepted, dropped, rejected, masqueraded, translated };

struct ChainWalk {
  ChainEnd end = ChainEnd::accepted;
  std::optional<ipset::RejectAction::Way> rejected_as;  // nullopt: ICMP port unreachable
  ipset::TranslateAction translation;                   // to be done
  std::vector<RuleHit> hits;
  // If a rule set the packet's mark: the rule that led there and what it found.
  std::string marked_because;
};

// Changes the packet's marks and tracking as the rules do. A chain that is not there accepts.
ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local);

}  // namespace ipvsproxier::inspect
