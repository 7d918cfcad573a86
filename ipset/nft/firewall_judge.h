#pragma once

// Whether a base chain of somebody else in nf_tables lets a packet pass. An accept ends one base
// chain only: the packet goes on to the hook's other base chains, and each of them can still drop
// it. So no rule of ours helps where such a chain drops. Pure; any thread.
//
// The judge knows addresses, ports, protocol and connection state of the packet. What else a rule
// asks for (marks, names of links, limits) may be so or not. Rules of iptables-nft are read as
// those of legacy iptables (foreign_steps.h).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ipset/nft/chain_walk.h"
#include "ipset/nft/firewall_packet.h"
#include "ipset/nft/look_budget.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/foreign_steps.h"

namespace ipvsproxier::ipset {

enum class FirewallFate : std::uint8_t { passes, may_drop, drops };
// Whether a chain of type nat gives a packet another destination.
enum class FirewallTranslation : std::uint8_t { none, possible, certain };

FirewallFate fate_of(const WalkEnds& ends);

// What stands in the table of the chain; nullptr: it is not there, or could not be read.
struct FirewallTable {
  std::function<const std::vector<std::vector<NftStep>>*(const std::string& chain)> rules;
  std::function<const FilterSet*(const std::string& set)> set;
};

// Where the budget is spent at the end, the packet was not judged and the answer means nothing.
FirewallFate fate_in(const FirewallTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget);
// Whether it may keep the packet from connection tracking.
bool untracks_in(const FirewallTable& table, const std::string& chain, const FirewallPacket& packet,
                 LookBudget& budget);
FirewallTranslation translation_in(const FirewallTable& table, const std::string& chain,
                                   const FirewallPacket& packet, LookBudget& budget);

}  // namespace ipvsproxier::ipset
