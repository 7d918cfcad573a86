#pragma once

// A packet on its way through this node, and what was read of the node that decides about it.
// Values; any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/rule_types.h"
#include "ipset/set_codec.h"
#include "ipset/set_types.h"
#include "netlink/host_reader.h"
#include "netlink/ipvs_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::inspect {

// What the kernel's tracking of connections knows of a packet.
enum class Tracking : std::uint8_t { not_yet, tracked, never };

// The first packet of a connection, as it is at one point of its way.
struct Packet {
  netlink::IpAddress source;
  std::uint16_t source_port = 0;  // 0: not known; rules that ask for it are not matched
  netlink::IpAddress destination;
  std::uint16_t destination_port = 0;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint32_t mark = 0;
  Tracking tracking = Tracking::tracked;
  std::uint32_t connection_mark = 0;
  bool source_translated = false;
  bool destination_translated = false;
  std::string in_link;          // "" where a hook sees none
  std::string out_link;         // the same
  bool in_bridge_port = false;  // rules see that it came in through a port of a bridge
  // The virtual service to whose connection it belongs, once IPVS has it.
  std::optional<netlink::VirtualServiceKey> connection;

  friend bool operator==(const Packet&, const Packet&) = default;
};

struct NodeReading {
  // Tables that are not there have no rules: their packets pass.
  std::map<plan::TableKey, ipset::WholeTable> tables;
  // Every set that a rule consults and that could be read.
  std::map<std::string, std::set<ipset::Element>> sets;
  std::map<std::string, std::vector<ipset::NetMember>> net_sets;  // those of hash:net
  // Firewall-mark services, too. One whose servers could not be read has none.
  std::map<netlink::VirtualServiceKey, plan::ActualService> services;
  std::vector<netlink::LinkRecord> links;
  std::vector<netlink::AddressRecord> addresses;
  // TCP and UDP; nullopt: the kernel cannot list them.
  std::optional<std::vector<netlink::Listener>> listeners;
  bool tracks_ipvs = true;  // net.ipv4.vs.conntrack: without it nothing is masqueraded
  // Links from which this host forwards IPv4: of others, what is not for it is lost without a word.
  std::set<std::string> forwards_ipv4;
  bool forwards_ipv6 = true;
  std::set<netlink::Family> bridge_calls;  // bridged packets of these families meet the rules
};

}  // namespace ipvsproxier::inspect
