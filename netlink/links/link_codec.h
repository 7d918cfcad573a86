#pragma once

// Links, addresses and local routes over rtnetlink: encodes requests and decodes replies. Pure; any
// thread.
//
//   nlmsghdr | ifinfomsg  | IFNAME, TXQLEN, LINKINFO { INFO_KIND "dummy" }
//   nlmsghdr | ifaddrmsg  | LOCAL, ADDRESS
//   nlmsghdr | rtmsg      | DST, OIF, PRIORITY
//
// On a point-to-point address IFA_ADDRESS is the peer's address and IFA_LOCAL ours, so LOCAL is
// preferred; IPv6 sends LOCAL only in that case. Sources: net/core/rtnetlink.c, net/ipv4/devinet.c,
// net/ipv6/addrconf.c (6.1).
//
// The daemon recognizes its own local routes by their rtm_protocol. They lead to lo: fib6_nh_init()
// refuses a link that is DOWN, as our dummy link is, and fib_inetaddr_event() removes all IPv4
// routes of a link with its last address. Their own metric keeps them apart from the routes that
// the kernel makes for addresses (metric 0) and from other programs' routes to the same address,
// which may come before or after them. Sources: net/ipv4/fib_frontend.c, net/ipv6/route.c (6.1).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/links/link_table.h"
#include "netlink/links/link_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

Bytes encode_get_link(std::string_view name);
Bytes encode_new_dummy(std::string_view name);
Bytes encode_delete_link(std::int32_t index);
Bytes encode_address_op(std::int32_t link_index, const AddressOp& op);
Bytes encode_local_route_op(const AddressOp& op);
Bytes encode_list_links();      // a dump
Bytes encode_list_addresses();  // a dump
// A dump of our local routes. The kernel adds other routes where it cannot filter (before 4.20, or
// without NETLINK_GET_STRICT_CHK).
Bytes encode_list_local_routes(Family family);

// `payload` starts with the family header. `malformed` for bytes that break the policy,
// `unsupported` for an address of another family than IPv4 and IPv6.
Result<LinkRecord> decode_link(ByteView payload);
Result<AddressRecord> decode_address(ByteView payload);
// The address of one of our local routes; nullopt for another route.
Result<std::optional<IpAddress>> decode_local_route(ByteView payload);

}  // namespace ipvsproxier::netlink
