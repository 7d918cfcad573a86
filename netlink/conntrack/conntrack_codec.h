#pragma once

// Tracked flows over nfnetlink: encodes requests and decodes listings. Pure; any thread.
//
//   nlmsghdr | nfgenmsg family | TUPLE_ORIG | TUPLE_REPLY | ID | ZONE | FILTER { ORIG_FLAGS } | ...
//                                `- IP { V4_SRC V4_DST or V6_SRC V6_DST }
//                                   PROTO { NUM SRC_PORT DST_PORT }
//                                   ZONE
//
// Ports, ids and zones are in network order, the flags of a filter in the host's. Source:
// net/netfilter/nf_conntrack_netlink.c (6.1).

#include <cstddef>
#include <optional>

#include "netlink/conntrack/conntrack_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Asks for the number of tracked flows: one request, one answer.
Bytes encode_get_flow_count();
Result<std::size_t> decode_flow_count(ByteView payload);

// A dump of all flows of the family, of every protocol and zone.
Bytes encode_list_flows(Family family);

// A dump for which the kernel is asked to leave out flows of other protocols and those to another
// destination. The answer may still hold such flows: a kernel before 5.8 does not know the filter,
// and for IPv6 only the port is filtered, because ctnetlink_filter_match_tuple drops exactly the
// flows to the given IPv6 address and keeps the others (5.8 to at least 6.1; measured on 6.1.176).
Bytes encode_list_flows(Family family, Protocol protocol,
                        const std::optional<FlowEnd>& destination);

// Whether a listed flow passes the filter of encode_list_flows(). False means that the kernel
// ignored the filter. True for bytes that break the policy.
bool is_filtered_for(ByteView payload, Protocol protocol,
                     const std::optional<FlowEnd>& destination);

// Removes the flow with these addresses and ports and this id; the kernel answers ENOENT if there
// is no such flow.
Bytes encode_remove_flow(const Flow& flow);

// One flow of a listing. nullopt: the flow is not of this protocol over IPv4 or IPv6, or is not in
// the default zone in both directions. `payload` starts with nfgenmsg. `malformed` for bytes that
// break the policy.
Result<std::optional<Flow>> decode_listed(ByteView payload, Protocol protocol);

// One flow of a listing. nullopt: a flow of another protocol or outside the default zone.
Result<std::optional<TrackedFlow>> decode_flow(ByteView payload, Protocol protocol);

}  // namespace ipvsproxier::netlink
