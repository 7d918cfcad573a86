#pragma once

// The way of a connection's first packet through this node, as the kernel would take it: rules,
// routing, IPVS, in the order of the kernel's hooks, and what comes of it. Any thread; asks the
// host for routes, changes nothing.
//
//   comes in:   raw, mangle, nat PREROUTING - route -+- local: mangle, filter INPUT - IPVS -+- nat
//   INPUT
//                                               |                                      - server
//                                               +- mangle, filter FORWARD - POSTROUTING
//   sent here:  route - mangle, nat OUTPUT - IPVS -+- server
//                                                  +- filter OUTPUT - POSTROUTING - if local: lo,
//                                                     mangle PREROUTING, mangle, filter INPUT
//   server:     mangle, filter OUTPUT - mangle, nat POSTROUTING - link; one on this host that a
//               packet from outside goes to is at nat INPUT already
//
// IPVS sits at LOCAL_IN with priority NF_IP_PRI_NAT_SRC - 1, behind filter, and at LOCAL_OUT with
// NF_IP_PRI_NAT_DST + 2, behind nat and before filter. What it sends to a server passes LOCAL_OUT
// (nat only once in a connection) and POSTROUTING, where masquerading replaces the source although
// IPVS changed the destination (net/netfilter/ipvs/ip_vs_core.c, ip_vs_xmit.c, ip_vs_nfct.c, 6.1).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/host_reader.h"
#include "proxier/inspect/packet.h"

namespace ipvsproxier::inspect {

struct Flow {
  std::optional<netlink::IpAddress> source;  // nullopt: this node, with the source that it chooses
  std::uint16_t source_port = 0;             // 0: any
  netlink::IpAddress destination;
  std::uint16_t port = 0;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  // Where it comes in; "": from this node if the source is an address of it, else through the link
  // on which answers to the source would leave.
  std::string in_link;
};

// One thing that happened. A rule has a chain.
struct WalkStep {
  std::string stage;      // "nat PREROUTING", "route", "IPVS"
  std::string chain;      // "KUBE-SERVICES"
  std::string text;       // the rule, or what happened in words
  std::string found;      // the set elements that the rule found
  bool unjudged = false;  // a rule that could not be judged: taken as not matching
  bool decides = false;   // it ended the packet's way

  friend bool operator==(const WalkStep&, const WalkStep&) = default;
};

enum class Fate : std::uint8_t {
  served,     // goes to a real server
  delivered,  // to a socket of this node
  forwarded,  // leaves this node as any other packet
  refused,    // the sender is told
  dropped,    // without a word
};

std::string_view to_string(Fate fate);

// How the sender of a refused packet learns of it.
enum class Notice : std::uint8_t {
  none,
  port_unreachable,
  host_unreachable,
  reset,
  call_fails,
  prohibited
};

std::string_view to_string(Notice notice);  // "ICMP port unreachable"

// Where a packet got to, as far as its way is the same for all servers or for one of them.
struct Arrival {
  Fate fate = Fate::dropped;
  Notice notice = Notice::none;  // of one that is refused
  std::string why;               // where and why, of one that is refused or dropped
  netlink::IpAddress source;     // as the destination sees it
  bool masqueraded = false;
  std::string source_because;         // what decided that it is masqueraded, or that it is not
  std::string translated_to;          // by DNAT: "10.244.1.5:80"; "" if it was not
  std::string out_link;               // by which it leaves; "" for this node
  std::vector<std::string> cautions;  // what this node does not decide but matters

  friend bool operator==(const Arrival&, const Arrival&) = default;
};

// A real server that IPVS may choose, and what becomes of the packet then.
struct Candidate {
  netlink::RealServer server;
  std::vector<WalkStep> steps;
  Arrival arrival;  // `delivered` where the server is this node itself, else `served` or lost
};

struct PacketWalk {
  Flow flow;               // source and link filled in
  bool sent_here = false;  // by this node
  std::vector<WalkStep> steps;
  // The virtual service, if the packet got that far. With candidates `arrival` says `served`; its
  // other fields are those of the candidates.
  std::optional<netlink::VirtualService> service;
  std::vector<Candidate> candidates;             // weight above 0
  std::vector<netlink::RealServer> passed_over;  // weight 0
  Arrival arrival;
};

// Whether the packet gets to a server or socket, or leaves the node; of several servers: any.
bool gets_there(const PacketWalk& walk);

// Whether each rule that the packet met could be judged.
bool is_certain(const PacketWalk& walk);

// `malformed` for a flow that cannot be: source and destination of two families, a link that is
// not there, a sender that would speak to itself.
netlink::Result<PacketWalk> walk_packet(const Flow& flow, const NodeReading& node,
                                        netlink::HostReader& host);

}  // namespace ipvsproxier::inspect
