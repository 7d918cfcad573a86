#pragma once

// Tracked flows over nfnetlink: requests out of values, values out of listings. Pure, any thread.
//
//   nlmsghdr | nfgenmsg family | TUPLE_ORIG | TUPLE_REPLY | ID | ZONE | FILTER { ORIG_FLAGS } | ...
//                                `- IP { V4_SRC V4_DST or V6_SRC V6_DST }
//                                   PROTO { NUM SRC_PORT DST_PORT }
//                                   ZONE
//
// Ports, ids and zones are in network order, the flags of a filter in the host's. Source:
// net/netfilter/nf_conntrack_netlink.c (6.1).

#include <optional>

#include "netlink/conntrack_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// How many flows there are: one question with one answer.
Bytes encode_get_flow_count();

// A dump of the flows of the family, of every protocol and zone.
Bytes encode_list_flows(Family family);

// A dump for which the kernel is asked to leave out flows that are not UDP or not to this
// destination. It may still send them: a kernel before 5.8 does not know the filter, and of IPv6
// destinations only the port is asked for, since ctnetlink_filter_match_tuple leaves out the very
// flows to an IPv6 address and keeps the others (5.8 to at least 6.1; measured on 6.1.176).
Bytes encode_list_udp_flows(Family family, const std::optional<FlowEnd>& destination);

// Whether a flow of a listing may be one that encode_list_udp_flows() asked for, going by what the
// filter looks at. Where not, the kernel has no filter. Bytes that break the policy may be.
bool is_filtered_for(ByteView payload, const std::optional<FlowEnd>& destination);

// A dump of what goes to this destination, left out by the kernel as above.
Bytes encode_list_flows_to(Protocol protocol, const FlowEnd& destination);

// Removes the flow with these addresses and ports and this id, or is answered ENOENT.
Bytes encode_remove_flow(const UdpFlow& flow);

// One flow of a listing; nullopt for one that is not UDP over IPv4 or IPv6 in the default zone in
// both directions. `payload` starts with nfgenmsg. `malformed` for bytes that break the policy.
Result<std::optional<UdpFlow>> decode_udp_flow(ByteView payload);

// One flow of a listing of one protocol; nullopt for one of another, or not in the default zone.
Result<std::optional<TrackedFlow>> decode_flow(ByteView payload, Protocol protocol);

}  // namespace ipvsproxier::netlink
