#pragma once

// The links and routes of a loop (loop_types.h) over rtnetlink: encodes requests and decodes
// replies. Pure; any thread.
//
//   RTM_NEWLINK   IFNAME, ADDRESS, LINKINFO { veth, INFO_DATA { PEER: ifinfomsg, IFNAME, ADDRESS }
//                 }
//   RTM_SETLINK   UP and NOARP; ADDRESS, AF_SPEC { AF_INET { INET_CONF { ROUTE_LOCALNET } } }
//   RTM_NEWROUTE  DST, OIF, PRIORITY; unreachable, and RTM_DELROUTE of it: DST, PRIORITY
//
// Both links have one link-layer address. On a link without ARP a neighbour has that of the link
// itself (arp_constructor() in net/ipv4/arp.c, ndisc_constructor() in net/ipv6/ndisc.c), which is
// here also the other end's, so no neighbours need be kept. That packets of 127.0.0.0/8 may be on
// the first link alone is IPV4_DEVCONF_ROUTE_LOCALNET, as sysctl route_localnet. IPv6 has no such
// setting: packets to ::1 find their way if a local route by the link leads there. Sources:
// drivers/net/veth.c, net/core/rtnetlink.c, net/ipv4/devinet.c, net/ipv6/ip6_input.c (6.1).

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/ip_address.h"
#include "netlink/links/loop_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

struct LoopLink {
  std::int32_t index = 0;
  std::string name;
  std::string kind;
  std::int32_t other_end = 0;  // index; of a link in another network namespace: 0
  bool up = false;
  bool no_arp = false;
  bool has_address = false;  // that of loops
  bool takes_loopback = false;

  friend auto operator<=>(const LoopLink&, const LoopLink&) = default;
};

Bytes encode_new_loop(const std::string& first, const std::string& second);
// Makes the link what an end of a loop is; the first end may have loopback addresses on it.
Bytes encode_settle_loop(std::int32_t index, bool takes_loopback);
// NLM_F_EXCL: `already` if there is one with our metric.
Bytes encode_loop_route(std::int32_t index, const IpAddress& address, bool local);
// That the range is unreachable: what the other routes lead to links goes nowhere else without
// them.
Bytes encode_unreachable(const IpPrefix& range, bool add);
Result<LoopLink> decode_loop_link(ByteView payload);

// What the link lacks: encode_settle_loop() gives it.
bool is_settled(const LoopLink& link, bool takes_loopback);

}  // namespace ipvsproxier::netlink
