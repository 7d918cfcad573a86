#pragma once

// Finds the chains of others that drop packets of Services, or give them another destination, by
// judging packets of some virtual services (sample_walk.h). One thread.
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

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ipset/judge/look_budget.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// --service-node-port-range of the API server, by default.
inline constexpr std::uint16_t kFirstNodePort = 30000;
inline constexpr std::uint16_t kLastNodePort = 32767;
constexpr bool is_usual_node_port(std::uint16_t port) {
  return port >= kFirstNodePort && port <= kLastNodePort;
}

// A virtual service, with one of its real servers.
struct FirewallSample {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t port = 0;
  std::optional<netlink::IpAddress> server;
  std::uint16_t server_port = 0;
  bool is_node_port = false;  // of such a port an equal host port comes first
};

struct FirewallWarning {
  bool drops = false;  // or takes them elsewhere; else it may, for what the judge cannot know
  std::string chain;   // printable; the examples in `text` change with the Services
  std::string text;    // names the chain, printable, and the rule to add
  std::string table;   // printable
  PacketFilter of = PacketFilter::nftables;

  friend auto operator<=>(const FirewallWarning&, const FirewallWarning&) = default;
};

struct FirewallLook {
  std::vector<FirewallWarning> warnings;        // one for each chain, sorted
  std::map<std::string, std::string> unjudged;  // tables not all of which was judged, and why
  bool was_late = false;                        // with more time, more of them can be judged
};

// "whether nf_tables table inet host drops packets of Services is not known: more than 20000 rules"
std::string text_of_unjudged(const std::string& table, const std::string& why);

// Most samples of a family that are judged: the others are like them.
inline constexpr std::size_t kMostFirewallSamples = 32;
// Most ports of a family that are judged for each chain that translates.
inline constexpr std::size_t kMostFirewallPorts = 512;

// Without samples of a family any packet may be one of a Service. Reads the tables that have base
// chains, and none of ours. `filter`: which of them has our rules.
netlink::Result<FirewallLook> find_firewall_warnings(FilterTable& nftables, PacketFilter filter,
                                                     const std::vector<FirewallSample>& samples,
                                                     LookBudget& budget);

// The same for the legacy table filter of a family. A chain that only may drop is reported if its
// policy or its last rule drops all.
FirewallLook find_legacy_warnings(netlink::Family family, const WholeTable& table,
                                  PacketFilter filter, const std::vector<FirewallSample>& samples,
                                  LookBudget& budget);
// What a chain of the legacy table filter drops, and only rules of kube-proxy's IPVS mode in that
// table can accept: what pods answer, in FORWARD, and health check node ports, in INPUT. Chains of
// kube-proxy count as if they were empty. Addresses are not asked for, as pods and their peers
// may have any.
FirewallLook find_needed_accepts(netlink::Family family, WholeTable table, LookBudget& budget);

// Whether the rule drops or rejects every packet that meets it.
bool drops_all(const Rule& rule);
// Names of tables in what is told.
std::string legacy_table_name(netlink::Family family);  // "legacy IPv4 table filter"
std::string nft_table_name(
    const std::string& table);  // of "inet host": "nf_tables table inet host"

}  // namespace ipvsproxier::ipset
