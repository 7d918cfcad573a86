#pragma once

// How a packet of which not all is known may end in a chain: of nf_tables (firewall_judge.h) or of
// legacy iptables (legacy_judge.h). Pure but for what reads the rules; any thread.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ipset/nft/look_budget.h"
#include "ipset/nft/truth.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// Whether a rule's conditions hold, and what it then does: one of `leads`.
struct RuleOutcome {
  Truth holds = Truth::no;
  std::vector<Action> leads;
  bool untracks = false;  // as well: it keeps the packet from connection tracking
};

struct ChainRules {
  std::size_t size = 0;
  std::function<RuleOutcome(std::size_t rule)> outcome;
};

// nullopt: the chain is not there, or could not be read. The rules of a chain stay valid while
// those of the chains that it leads to are looked at.
using FindRules = std::function<std::optional<ChainRules>(const std::string& chain)>;

struct WalkEnds {
  bool can_accept = false;
  bool can_drop = false;
  bool can_translate = false;  // to another destination
  bool can_untrack = false;    // false if that is not known
};

// Where the budget is spent at the end, the packet was not judged and the answer means nothing.
// Jumps to chains of kube-proxy, kubelet and ours count as if packets came back (is_proxy_chain()).
WalkEnds walk_chain(const FindRules& find, const std::string& chain, bool policy_accepts,
                    LookBudget& budget);

}  // namespace ipvsproxier::ipset
