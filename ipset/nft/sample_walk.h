#pragma once

// What rules of other programs may do to packets of Services, of which not everything is known
// (judge/chain_walk.h). Pure except for what reads the rules; any thread.
//
// The walk knows addresses, ports, protocol and connection state of the packet, as far as a sample
// gives them. Marks, names of links, limits and sets of iptables may be anything. An accept ends
// one base chain only: the packet goes on to the hook's other base chains, in legacy iptables and
// in nf_tables, and each of them can still drop it. So no rule of ours helps where such a chain
// drops.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ipset/judge/chain_walk.h"
#include "ipset/judge/look_budget.h"
#include "ipset/judge/nft_judge.h"
#include "ipset/judge/packet.h"
#include "ipset/nftables/foreign_steps.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// Connection tracking sees packets at this priority of prerouting and output
// (NF_IP_PRI_CONNTRACK).
inline constexpr std::int32_t kTrackingPriority = -200;

// A packet, and whether its destination is an address of this node; else that is not known.
struct SamplePacket {
  Packet packet;
  bool to_here = false;
};

// The rules of a table of nf_tables for packets of one family; nullptr: the chain is not there, or
// could not be read.
struct FirewallTable {
  std::function<const std::vector<std::vector<NftStep>>*(const std::string& chain)> rules;
  NftSets sets;
};

// Every end that the packet may have in a base chain. Jumps to chains of kube-proxy, kubelet and
// this daemon count as if packets came back (is_proxy_chain()). Where the budget is spent at the
// end, the packet was not judged and the answer means nothing.
ChainWalk walk_sample(const FirewallTable& table, const std::string& chain, bool policy_accepts,
                      const SamplePacket& sample, LookBudget& budget);
// The same for a built-in chain of legacy iptables.
ChainWalk walk_sample(const WholeTable& table, const std::string& chain, bool policy_accepts,
                      const SamplePacket& sample, LookBudget& budget);

enum class FirewallFate : std::uint8_t { passes, may_drop, drops };
FirewallFate fate_of(const ChainWalk& walk);
// Whether a chain of type nat gives a packet another destination.
enum class FirewallTranslation : std::uint8_t { none, possible, certain };
FirewallTranslation translation_of(const ChainWalk& walk);

}  // namespace ipvsproxier::ipset
