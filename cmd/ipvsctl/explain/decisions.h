#pragma once

// What the kernel decides about a packet beside the rules: which virtual service takes it and which
// real servers may get it, what happens without a route, which address masquerading chooses, and
// whether a socket listens. Pure, any thread.

#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet_walk.h"

namespace ipvsproxier::ctl {

// --- IPVS, as ip_vs_service_find() and ip_vs_schedule() decide (net/netfilter/ipvs, 6.1)

struct VirtualChoice {
  const plan::ActualService* service = nullptr;  // in the reading; nullptr: IPVS ignores the packet
  std::string text;                              // "10.96.0.1:443/TCP, scheduler rr"
  std::vector<netlink::RealServer> candidates;
  std::vector<netlink::RealServer> passed_over;  // weight 0: no new connections
  std::string why_none;                          // the reason, without candidates
  // Without candidates: the packet passes IPVS. Only possible for an FTP service.
  bool passes = false;
};

VirtualChoice choose_service(const NodeReading& node, const Packet& packet);

// --- the host

std::string link_name(const NodeReading& node, std::int32_t index);  // "" if there is none

// A failed route lookup (netlink::HostReader::route()), in words.
std::string route_failure(const netlink::Error& error);
// How the kernel notifies the sender of a packet that came in over this link (ip_error() in
// net/ipv4/route.c, ip6_pkt_drop() in net/ipv6/route.c).
Notice failure_notice(const NodeReading& node, const Packet& packet, const netlink::Error& error);

// The address that MASQUERADE chooses for IPv4 (inet_select_addr() in net/ipv4/devinet.c): the
// link's address in the subnet of the next hop, else the link's first one, else the first one of
// any link. Secondary addresses and those of smaller scope do not count.
std::optional<netlink::IpAddress> select_address(const NodeReading& node, std::int32_t link,
                                                 const netlink::IpAddress& next_hop);

// The destination of REDIRECT (nf_nat_redirect_ipv4() in net/netfilter/nf_nat_redirect.c): for
// packets of this host the loopback address, else the first address of the link.
netlink::IpAddress redirect_address(const NodeReading& node, const Packet& packet);

// Whether a socket accepts the packet; nullopt: unknown.
std::optional<bool> is_heard(const NodeReading& node, const Packet& packet);

// Whether rules of ours keep connections of Services out of flowtables of others.
bool keeps_out_of_flowtables(const NodeReading& node, netlink::Family family);

// How the sender learns that no socket accepts the packet.
Notice unheard_notice(const Packet& packet);

}  // namespace ipvsproxier::ctl
