#pragma once

// Computes the way of a connection's first packet through this node as the kernel would: rules,
// routing and IPVS in the order of the kernel's hooks, and the result. Any thread; asks the host
// for routes, changes nothing. Rules are those of iptables and of nf_tables.
//
//   incoming:  raw, mangle, nat PREROUTING - route, then
//     local:   mangle, filter INPUT - IPVS, then nat INPUT without a virtual service, else server
//     forward: mangle, filter FORWARD - POSTROUTING
//   outgoing:  route - mangle, nat OUTPUT - IPVS, then
//     with a virtual service: server
//     without: filter OUTPUT - POSTROUTING, and to a local address further over lo:
//              mangle PREROUTING - mangle, filter INPUT
//   server:    mangle, filter OUTPUT - mangle, nat POSTROUTING - link; an incoming packet to a
//              server on this host is at nat INPUT already
//
// What leaves by the links of node ports on localhost comes in again (localhost_rules.h).
//
// hook_pass.h says where chains of nf_tables stand between them.
//
// IPVS sits at LOCAL_IN with priority NF_IP_PRI_NAT_SRC - 1, after filter, and at LOCAL_OUT with
// NF_IP_PRI_NAT_DST + 2, after nat and before filter. A packet from IPVS to a server passes
// LOCAL_OUT (nat only once in a connection) and POSTROUTING, where masquerading replaces the source
// although IPVS changed the destination (net/netfilter/ipvs/ip_vs_core.c, ip_vs_xmit.c,
// ip_vs_nfct.c, 6.1).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet.h"
#include "netlink/links/host_reader.h"

namespace ipvsproxier::ctl {

struct Flow {
  std::optional<netlink::IpAddress> source;  // nullopt: this node, with the address that it chooses
  std::uint16_t source_port = 0;             // 0: any
  netlink::IpAddress destination;
  std::uint16_t port = 0;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  // The incoming link. "": sent by this node if the source is an address of it; otherwise the link
  // over which answers to the source would leave.
  std::string in_link;
  // A later packet of a connection, which every real server may have; its source is settled.
  bool established = false;
};

// One step of the way. Only a rule has a chain.
struct WalkStep {
  std::string stage;      // "nat PREROUTING", "route", "IPVS"
  std::string chain;      // "KUBE-SERVICES"
  std::string text;       // the rule, or the event in words
  std::string found;      // set elements that the rule found
  bool unjudged = false;  // a rule that could not be judged and is taken as not matching
  bool decides = false;   // it ended the packet's way

  friend bool operator==(const WalkStep&, const WalkStep&) = default;
};

enum class Fate : std::uint8_t {
  served,     // reaches a real server
  delivered,  // reaches a socket of this node
  forwarded,  // leaves this node like any other packet
  refused,    // dropped, and the sender is notified
  dropped,    // dropped without notice
};

std::string_view to_string(Fate fate);

// How the sender of a refused packet is notified.
enum class Notice : std::uint8_t {
  none,
  port_unreachable,
  host_unreachable,
  reset,
  call_fails,
  prohibited
};

std::string_view to_string(Notice notice);  // "ICMP port unreachable"

// The end of a packet's way: common to all servers, or for one server.
struct Arrival {
  Fate fate = Fate::dropped;
  Notice notice = Notice::none;  // for `refused`
  std::string why;               // place and reason, for `refused` and `dropped`
  netlink::IpAddress source;     // as the destination sees it
  bool masqueraded = false;
  std::string source_because;         // the rule that decided about masquerading
  std::string translated_to;          // by DNAT: "10.244.1.5:80"; else ""
  std::string out_link;               // outgoing link; "" for this node
  std::vector<std::string> cautions;  // conditions outside this node that matter

  friend bool operator==(const Arrival&, const Arrival&) = default;
};

// A real server that IPVS may choose, and the packet's further way.
struct Candidate {
  netlink::RealServer server;
  std::vector<WalkStep> steps;
  Arrival arrival;  // `delivered` if the server is this node; else `served`, `refused` or `dropped`
};

struct PacketWalk {
  Flow flow;               // with source and link filled in
  bool sent_here = false;  // by this node
  std::vector<WalkStep> steps;
  // The virtual service that took the packet, if any. With candidates, `arrival` only says
  // `served`; each candidate has its own.
  std::optional<netlink::VirtualService> service;
  std::vector<Candidate> candidates;             // weight above 0
  std::vector<netlink::RealServer> passed_over;  // weight 0
  Arrival arrival;
};

// Whether the packet reaches a server or socket, or leaves the node; with several servers: at least
// one.
bool gets_there(const PacketWalk& walk);

// Whether every rule that the packet met could be judged.
bool is_certain(const PacketWalk& walk);

// `malformed` for an impossible flow: source and destination of different families, an absent link,
// a sender that would talk to itself.
netlink::Result<PacketWalk> walk_packet(const Flow& flow, const NodeReading& node,
                                        netlink::HostReader& host);

}  // namespace ipvsproxier::ctl
