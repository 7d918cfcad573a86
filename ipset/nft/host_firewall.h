#pragma once

// Finds the chains of others that drop packets of Services, or give them another destination, by
// judging packets of some virtual services (firewall_judge.h, legacy_judge.h). One thread.
//
// Where packets of a Service meet such chains (net/netfilter/ipvs/ip_vs_core.c, 6.1): what comes
// for a virtual service passes prerouting and input, where IPVS takes it at priority 98; what IPVS
// sends on passes output and postrouting, as a packet of this node; what pods answer passes
// forward.
//
// Chains of type nat are asked until one of them settles the destination (nf_nat_inet_fn(),
// net/netfilter/nf_nat_core.c, 6.1), in the order of their priorities, of one priority the newer
// one first. Rules of legacy iptables accept, which settles nothing: any chain of nf_tables may
// take packets from them. Ours in nf_tables settle, and come before those of others.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// A virtual service, with one of its real servers.
struct FirewallSample {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;
  std::optional<netlink::IpAddress> server;
  std::uint16_t server_port = 0;
};

struct FirewallWarning {
  bool drops = false;  // or takes them elsewhere; else it may, for what the judge cannot know
  std::string chain;   // printable; the examples in `text` change with the Services
  std::string text;    // names the chain, printable, and the rule to add

  friend auto operator<=>(const FirewallWarning&, const FirewallWarning&) = default;
};

// Most samples of a family that are judged: the others are like them.
inline constexpr std::size_t kMostFirewallSamples = 32;

// Whether the port is one of node ports as API servers give them by default. Of such a port an
// equal host port comes first.
bool is_node_port(const FirewallSample& sample);

// One warning for each chain, sorted. Without samples of a family any packet may be one of a
// Service. Reads the tables that have base chains, and none of ours. A table that cannot be read
// is passed over: the next call may be luckier. `filter`: which of them has our rules.
netlink::Result<std::vector<FirewallWarning>> find_firewall_warnings(
    FilterTable& nftables, PacketFilter filter, const std::vector<FirewallSample>& samples);

// The same for the legacy table filter of a family. A chain that only may drop is told if its
// policy drops.
std::vector<FirewallWarning> find_legacy_warnings(netlink::Family family, const WholeTable& table,
                                                  PacketFilter filter,
                                                  const std::vector<FirewallSample>& samples);

}  // namespace ipvsproxier::ipset
