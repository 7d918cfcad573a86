#pragma once

// Node ports on localhost (nodePortAddresses: localhost). IPVS does not send on what has a loopback
// source, whatever is set (crosses_local_route_boundary() in net/netfilter/ipvs/ip_vs_xmit.c, 6.1),
// so such packets leave by the first link of a pair and come back by the second one, with other
// addresses:
//
//   127.0.0.1 -> 127.0.0.1   translated to `near`, which is routed to the first link
//   far -> near              on the links, both NOARP; an answer to `far` is routed to the second
//   far -> server            behind the second link: an address of this node, with a virtual
//                            service for each node port; masqueraded like other node ports
//
// The first packet of a connection meets IPVS, which chooses; connection tracking then translates
// `near` to the endpoint, and IPVS sees answers alone. None of the three addresses is for others:
// who asks for `near` from elsewhere is sent to `server`, and there only packets of the second link
// are let in. Pure functions; any thread.

#include <string_view>
#include <vector>

#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

inline constexpr std::string_view kLoopLinks = "kube-local";  // followed by a number
inline constexpr std::string_view kFirstLoopLink = "kube-local0";
inline constexpr std::string_view kSecondLoopLink = "kube-local1";

// The addresses of one family.
struct LocalhostLoop {
  netlink::IpAddress localhost;  // 127.0.0.1, ::1
  netlink::IpPrefix sources;     // 127.0.0.0/8, ::1/128
  netlink::IpAddress near;
  netlink::IpAddress far;
  netlink::IpAddress server;
  netlink::IpPrefix all;  // the three of them, and the address before
};

const LocalhostLoop& localhost_loop(Family family);

// Whether the table has rules about addresses of the loop.
bool is_about_loop(const TableRules& table);

}  // namespace ipvsproxier::ipset
