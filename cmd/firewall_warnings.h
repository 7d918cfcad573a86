#pragma once

// Chains of others that drop packets of Services, in nf_tables and legacy iptables. One thread.

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "cmd/kernel_tables.h"
#include "ipset/nft/host_firewall.h"
#include "ipset/nft/untracked_ports.h"
#include "ipset/rules/packet_filter.h"
#include "netlink/result.h"

namespace ipvsproxier::cmd {

// `filter` has our rules: in legacy iptables they let pass what pods answer. Makes no table, and
// loads nothing with MayLoad::no. A kernel without nf_tables has no chains in it. Takes `longest`
// at most for nf_tables and for each legacy table, besides the reading of the latter.
netlink::Result<ipset::FirewallLook> firewall_warnings(
    MayLoad may_load, ipset::PacketFilter filter, const std::vector<ipset::FirewallSample>& samples,
    std::chrono::milliseconds longest);

// The ports of these addresses that rules of nf_tables and of legacy tables raw keep from
// connection tracking. Makes no table, and loads nothing with MayLoad::no. Takes `longest` at most,
// besides the reading of the latter.
netlink::Result<ipset::UntrackedLook> untracked_ports(MayLoad may_load,
                                                      const std::set<netlink::IpAddress>& addresses,
                                                      std::chrono::milliseconds longest);

// With samples of the virtual services in the kernel. Their node ports are known by number.
// `programmed` is where our rules are. Loads nothing.
netlink::Result<ipset::FirewallLook> loaded_firewall_warnings(const ProgrammedFilter& programmed);

// A rule of others that adds connections to a flowtable (ipset/nft/flow_rules.h).
struct FlowRuleFact {
  std::string text;
  bool guarded = false;  // the kernel has our rules against it
};

// As the kernel is now. Loads nothing, makes no table.
netlink::Result<std::vector<FlowRuleFact>> loaded_flow_rules(const ProgrammedFilter& programmed);

}  // namespace ipvsproxier::cmd
