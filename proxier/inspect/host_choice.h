#pragma once

// What this host does with a packet beside rules and IPVS: what a failed route lookup means, which
// address masquerading takes, whether a socket listens. Pure, any thread.

#include <optional>
#include <string>

#include "proxier/inspect/packet_walk.h"

namespace ipvsproxier::inspect {

std::string link_name(const NodeReading& node, std::int32_t index);  // "" for none

// A failed lookup (netlink::HostReader::route()) of a packet, in words.
std::string route_failure(const netlink::Error& error);
// How the kernel tells the sender of a packet that came in by this link (ip_error() in
// net/ipv4/route.c, ip6_pkt_drop() in net/ipv6/route.c).
Notice failure_notice(const NodeReading& node, const Packet& packet, const netlink::Error& error);

// The address that MASQUERADE takes for IPv4: inet_select_addr() in net/ipv4/devinet.c. That of the
// link in whose subnet the next hop is, else the link's first, else the first of any link; none of
// them secondary or of a smaller scope.
std::optional<netlink::IpAddress> select_address(const NodeReading& node, std::int32_t link,
                                                 const netlink::IpAddress& next_hop);

// Where REDIRECT sends it: nf_nat_redirect_ipv4() in net/netfilter/nf_nat_redirect.c; of what this
// host sends, to the loopback address, else to the first one of the link.
netlink::IpAddress redirect_address(const NodeReading& node, const Packet& packet);

// Whether a socket takes the packet; nullopt: that is not known.
std::optional<bool> is_heard(const NodeReading& node, const Packet& packet);

// How the sender of a packet that no socket takes learns of it.
Notice unheard_notice(const Packet& packet);

}  // namespace ipvsproxier::inspect
