#pragma once

// Route lookups over rtnetlink and listening sockets over sock_diag: encodes requests and decodes
// answers. Pure; any thread.
//
//   nlmsghdr | rtmsg            | DST, SRC, IIF, MARK          answer: OIF, GATEWAY, PREFSRC
//   nlmsghdr | inet_diag_req_v2                                answer: inet_diag_msg | SKV6ONLY
//
// Sources: inet_rtm_getroute() in net/ipv4/route.c, inet6_rtm_getroute() in net/ipv6/route.c,
// net/ipv4/inet_diag.c (6.1).

#include "netlink/links/host_reader.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

Bytes encode_get_route(const RouteQuestion& question);
Bytes encode_list_listeners(Family family, Protocol protocol);  // a dump; TCP or UDP

// `payload` starts with the family header. `malformed` for bytes that break the policy.
Result<Route> decode_route(ByteView payload);
// `protocol` is the one that the dump asked for: the answers do not name it.
Result<Listener> decode_listener(ByteView payload, Protocol protocol);

}  // namespace ipvsproxier::netlink
