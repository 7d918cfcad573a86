#pragma once

// Whether a built-in chain of legacy iptables lets a packet pass; firewall_judge.h for its rules.
// An accept there does not end the chains of nf_tables, nor theirs this one. Pure; any thread.
//
// Chains named KUBE- count as if packets came back from them: they are kubelet's, kube-proxy's or
// ours, and drop nothing of Services. KUBE-FORWARD, which accepts what pods answer, is judged.

#include <string>
#include <string_view>

#include "ipset/nft/firewall_judge.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

inline constexpr std::string_view kForwardChain = "KUBE-FORWARD";

FirewallFate fate_in(const WholeTable& table, const std::string& chain,
                     const FirewallPacket& packet);

}  // namespace ipvsproxier::ipset
