#pragma once

// Evaluates the rules of one built-in chain, and of the chains that it leads to, for one packet.
// Pure except for `is_local`; any thread.
//
// A rule with an unknown condition (time, chance, an unreadable set) or an unknown action cannot be
// judged if its other parts match: it is recorded and taken as not matching. Rules without effect
// on the packet (LOG) are skipped.

#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet.h"
#include "cmd/ipvsctl/explain/rule_judge.h"

namespace ipvsproxier::ctl {

// A rule that matched, or could not be judged. Jumps to chains without such rules are left out.
struct RuleHit {
  std::string chain;
  std::string rule;   // text of iptables-save without comment, or of nft; "policy DROP"
  std::string found;  // set elements that matched: "KUBE-CLUSTER-IP has 10.96.0.1,tcp:443"
  bool unjudged = false;
  bool decides = false;  // this rule ended the walk

  friend bool operator==(const RuleHit&, const RuleHit&) = default;
};

enum class ChainEnd : std::uint8_t { accepted, dropped, rejected, masqueraded, translated };

struct ChainWalk {
  ChainEnd end = ChainEnd::accepted;
  std::optional<ipset::RejectAction::Way> rejected_as;  // nullopt: ICMP port unreachable
  ipset::TranslateAction translation;                   // for ChainEnd::translated
  std::vector<RuleHit> hits;
  // If a rule set the packet's mark: the jump that led to it, and the elements found.
  std::string marked_because;
};

// Changes the packet's marks and tracking as the rules do. A chain that does not exist accepts.
ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local);

// The same for a chain of another table of nf_tables ("inet filter"), whose rules are judged as the
// kernel has them (nft_judge.h). In our own table that is done with rules that are not ours.
ChainWalk walk_nft_chain(const NodeReading& node, const std::string& table,
                         const std::string& chain, Packet& packet, const IsLocal& is_local);

}  // namespace ipvsproxier::ctl
