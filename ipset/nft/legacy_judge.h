#pragma once

// Whether a built-in chain of legacy iptables lets a packet pass; firewall_judge.h for its rules.
// An accept there does not end the chains of nf_tables, nor theirs this one. Pure; any thread.

#include <string>

#include "ipset/nft/firewall_judge.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// Whether it may keep the packet from connection tracking.
bool untracks_in(const WholeTable& table, const std::string& chain, const FirewallPacket& packet,
                 LookBudget& budget);

FirewallFate fate_in(const WholeTable& table, const std::string& chain, bool policy_accepts,
                     const FirewallPacket& packet, LookBudget& budget);

}  // namespace ipvsproxier::ipset
