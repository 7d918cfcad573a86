#pragma once

// The state of this node that decides about packets (ipset/judge/packet.h). Values; any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/judge/packet.h"
#include "ipset/nftables/foreign_steps.h"
#include "ipset/rules/rule_types.h"
#include "ipset/sets/set_codec.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/links/host_reader.h"
#include "netlink/nftables/nftables_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::ctl {

using ipset::Packet;
using ipset::PacketEnds;
using ipset::Tracking;

// Where nf_tables has a chain of another program.
struct NftChainPlace {
  std::string table;  // "inet filter"
  std::string chain;
  netlink::NftBase base;

  friend bool operator==(const NftChainPlace&, const NftChainPlace&) = default;
};

// Rules of a table of nf_tables, step by step, and what they look up; an unreadable set is left
// out.
struct NftRules {
  std::map<std::string, std::vector<std::vector<ipset::NftStep>>> chains;
  std::map<std::string, ipset::FilterSet> sets;
};

struct NodeReading {
  // Absent tables have no rules: packets pass.
  std::map<plan::TableKey, ipset::WholeTable> tables;
  // Other tables of nf_tables, by "inet filter", their places in the order of their priorities, and
  // words about those that could not be read.
  std::map<std::string, ipset::WholeTable> nft_tables;
  // The same rules of all of them, and of ours, as they are judged.
  std::map<std::string, NftRules> nft_rules;
  std::vector<NftChainPlace> nft_chains;
  std::vector<std::string> nft_unread;
  // Tables with chains that the kernel does not call, because they are dormant: "inet host".
  std::vector<std::string> nft_dormant;
  // Into which rules put connections, whose later packets may pass by all chains: "inet host fast".
  std::set<std::string> nft_flowtables;
  // Our table that keeps connections out of them beside legacy iptables is there.
  bool has_flow_table = false;
  // All sets that a rule uses and that could be read.
  std::map<std::string, std::set<ipset::Element>> sets;
  std::map<std::string, std::vector<ipset::NetMember>> net_sets;  // sets of type hash:net
  // Includes firewall-mark services. A service whose servers could not be read has none.
  std::map<netlink::VirtualServiceKey, plan::ActualService> services;
  std::vector<netlink::LinkRecord> links;
  std::vector<netlink::AddressRecord> addresses;
  // TCP and UDP sockets; nullopt: the kernel cannot list them.
  std::optional<std::vector<netlink::Listener>> listeners;
  bool tracks_ipvs = true;  // net.ipv4.vs.conntrack; if off, IPVS connections are not masqueraded
  // Links from which this host forwards IPv4; other links silently drop packets for other hosts.
  std::set<std::string> forwards_ipv4;
  bool forwards_ipv6 = true;
  std::set<netlink::Family> bridge_calls;  // families whose bridged packets pass the rules
};

}  // namespace ipvsproxier::ctl
