#pragma once

// Takes a packet through the rules of one built-in chain and of the chains that it leads to. Pure
// except for what reads the rules; any thread.
//
// A rule may not be decided: it asks for time, chance or a set that was not read, or what it asks
// of the packet is not known. One walk takes such a rule for one that does not match and records it
// (Doubt::skipped); the other one finds every end that the packet may have (Doubt::followed).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/judge/look_budget.h"
#include "ipset/judge/packet.h"
#include "ipset/judge/rule_judge.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// The rules of a chain. They stay valid while those of the chains that it leads to are looked at.
struct ChainRules {
  std::size_t size = 0;
  std::function<RuleOutcome(std::size_t rule, const Packet& packet)> judge;
  std::function<std::string(std::size_t rule)> text = {};  // for hits; without it there are none
};

// nullopt: the chain does not exist, or could not be read.
using FindChain = std::function<std::optional<ChainRules>(const std::string& chain)>;

enum class Doubt : std::uint8_t { skipped, followed };

struct WalkedRules {
  FindChain find;
  Doubt doubt = Doubt::skipped;
  // Jumps to such a chain count as if the packet came back unchanged.
  std::function<bool(std::string_view chain)> passes_by = {};
};

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
  ChainEnd end = ChainEnd::accepted;             // with Doubt::skipped the only one
  std::optional<RejectAction::Way> rejected_as;  // nullopt: ICMP port unreachable
  TranslateAction translation;                   // for ChainEnd::translated
  std::vector<RuleHit> hits;
  // If a rule set the packet's mark: the jump that led to it, and the elements found.
  std::string marked_because;
  // Every end that was met.
  bool can_accept = false;
  bool can_drop = false;       // or refuse
  bool can_translate = false;  // to another destination
  bool can_untrack = false;    // keep the packet from connection tracking
};

// Changes the packet's marks and tracking as the rules do. Where the budget is spent at the end,
// the packet was not judged and the answer means nothing. With Doubt::skipped a chain that is not
// found lets the packet pass.
ChainWalk walk_rules(const WalkedRules& rules, const std::string& chain, bool policy_accepts,
                     Packet& packet, LookBudget& budget);

}  // namespace ipvsproxier::ipset
