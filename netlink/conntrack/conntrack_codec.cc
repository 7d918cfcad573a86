#include "netlink/conntrack/conntrack_codec.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace ipvsproxier::netlink {

namespace {

// net/netfilter/nf_internals.h (5.8 and later): the parts of a tuple that the filter compares.
constexpr std::uint32_t kFilterDestinationAddress = 1U << 1;  // CTA_FILTER_F_CTA_IP_DST
constexpr std::uint32_t kFilterProtocol = 1U << 3;            // CTA_FILTER_F_CTA_PROTO_NUM
constexpr std::uint32_t kFilterDestinationPort = 1U << 5;     // CTA_FILTER_F_CTA_PROTO_DST_PORT

constexpr std::array kFlowPolicy = {
    AttrRule{CTA_TUPLE_ORIG, AttrKind::nested},
    AttrRule{CTA_TUPLE_REPLY, AttrKind::nested},
    AttrRule{CTA_ID, AttrKind::u32},
    AttrRule{CTA_ZONE, AttrKind::u16},
    AttrRule{CTA_STATUS, AttrKind::u32},
    AttrRule{CTA_TIMEOUT, AttrKind::u32},
    AttrRule{CTA_PROTOINFO, AttrKind::nested},
};

constexpr std::array kProtocolInfoPolicy = {AttrRule{CTA_PROTOINFO_TCP, AttrKind::nested}};

constexpr std::array kTcpInfoPolicy = {AttrRule{CTA_PROTOINFO_TCP_STATE, AttrKind::u8}};

constexpr std::array kTuplePolicy = {
    AttrRule{CTA_TUPLE_IP, AttrKind::nested},
    AttrRule{CTA_TUPLE_PROTO, AttrKind::nested},
    AttrRule{CTA_TUPLE_ZONE, AttrKind::u16},
};

constexpr std::array kIpPolicy = {
    AttrRule{CTA_IP_V4_SRC, AttrKind::bytes, 4, 4},
    AttrRule{CTA_IP_V4_DST, AttrKind::bytes, 4, 4},
    AttrRule{CTA_IP_V6_SRC, AttrKind::bytes, 16, 16},
    AttrRule{CTA_IP_V6_DST, AttrKind::bytes, 16, 16},
};

constexpr std::array kProtocolPolicy = {
    AttrRule{CTA_PROTO_NUM, AttrKind::u8},
    AttrRule{CTA_PROTO_SRC_PORT, AttrKind::u16},
    AttrRule{CTA_PROTO_DST_PORT, AttrKind::u16},
};

struct AddressAttributes {
  std::uint16_t source;
  std::uint16_t destination;
};

AddressAttributes address_attributes(Family family) {
  if (family == Family::ipv4) return {CTA_IP_V4_SRC, CTA_IP_V4_DST};
  return {CTA_IP_V6_SRC, CTA_IP_V6_DST};
}

// One direction of a flow.
struct Tuple {
  FlowEnd source;
  FlowEnd destination;
};

MessageWriter flow_request(std::uint8_t message, std::uint8_t family) {
  const nfgenmsg header{family, NFNETLINK_V0, 0};
  const auto type = static_cast<std::uint16_t>((NFNL_SUBSYS_CTNETLINK << 8) | message);
  return MessageWriter(type, 0, bytes_of(header));
}

std::uint8_t family_number(Family family) {
  return family == Family::ipv4 ? AF_INET : AF_INET6;
}

bool in_default_zone(const AttrReader& in, std::uint16_t zone) {
  return in.be16(zone).value_or(0) == 0;
}

// nullopt for a flow that is not of this protocol or not in the default zone.
Result<std::optional<Tuple>> decode_tuple(ByteView nest, Family family, Protocol protocol_wanted) {
  const auto in = AttrReader::parse(nest, kTuplePolicy);
  if (!in) return in.error();
  const auto addresses = in->nested(CTA_TUPLE_IP);
  const auto protocol = in->nested(CTA_TUPLE_PROTO);
  if (!addresses || !protocol) return malformed("a flow without addresses or protocol");
  const auto ip = AttrReader::parse(*addresses, kIpPolicy);
  if (!ip) return ip.error();
  const auto transport = AttrReader::parse(*protocol, kProtocolPolicy);
  if (!transport) return transport.error();
  if (transport->u8(CTA_PROTO_NUM) != static_cast<std::uint8_t>(protocol_wanted) ||
      !in_default_zone(*in, CTA_TUPLE_ZONE))
    return std::optional<Tuple>{};

  const auto attributes = address_attributes(family);
  const auto source = ip->bytes(attributes.source);
  const auto destination = ip->bytes(attributes.destination);
  const auto source_port = transport->be16(CTA_PROTO_SRC_PORT);
  const auto destination_port = transport->be16(CTA_PROTO_DST_PORT);
  if (!source || !destination || !source_port || !destination_port)
    return malformed("a flow without addresses or ports");
  return std::optional<Tuple>{
      Tuple{{*IpAddress::from_bytes(family, *source), *source_port},
            {*IpAddress::from_bytes(family, *destination), *destination_port}}};
}

// Both directions of a flow, and its remaining attributes.
struct Directions {
  Tuple there;
  Tuple back;
  AttrReader in;
};

// nullopt for a flow that is not of this protocol over IPv4 or IPv6, or not in the default zone.
Result<std::optional<Directions>> decode_directions(ByteView payload, Protocol protocol) {
  nfgenmsg header;
  if (payload.size() < sizeof header) return malformed("a flow without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  if (header.nfgen_family != AF_INET && header.nfgen_family != AF_INET6)
    return std::optional<Directions>{};
  const auto family = header.nfgen_family == AF_INET ? Family::ipv4 : Family::ipv6;
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kFlowPolicy);
  if (!in) return in.error();
  const auto original = in->nested(CTA_TUPLE_ORIG);
  const auto reply = in->nested(CTA_TUPLE_REPLY);
  if (!original || !reply) return malformed("a flow without its two directions");
  if (!in_default_zone(*in, CTA_ZONE)) return std::optional<Directions>{};
  const auto there = decode_tuple(*original, family, protocol);
  if (!there) return there.error();
  const auto back = decode_tuple(*reply, family, protocol);
  if (!back) return back.error();
  if (!*there || !*back) return std::optional<Directions>{};
  return std::optional<Directions>{Directions{**there, **back, *in}};
}

bool is_answered(const AttrReader& in) {
  constexpr std::uint32_t kSeenReply = 1U << 1;  // IPS_SEEN_REPLY
  return (in.be32(CTA_STATUS).value_or(0) & kSeenReply) != 0;
}

// "" for a flow without a state. The names are those of net/netfilter/nf_conntrack_proto_tcp.c.
Result<std::string> decode_state(const AttrReader& in) {
  constexpr std::array kNames = {"NONE",       "SYN_SENT", "SYN_RECV",  "ESTABLISHED", "FIN_WAIT",
                                 "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE",       "SYN_SENT2"};
  const auto nest = in.nested(CTA_PROTOINFO);
  if (!nest) return std::string();
  const auto info = AttrReader::parse(*nest, kProtocolInfoPolicy);
  if (!info) return info.error();
  const auto tcp = info->nested(CTA_PROTOINFO_TCP);
  if (!tcp) return std::string();
  const auto fields = AttrReader::parse(*tcp, kTcpInfoPolicy);
  if (!fields) return fields.error();
  const auto state = fields->u8(CTA_PROTOINFO_TCP_STATE);
  return std::string(state && *state < kNames.size() ? kNames.at(*state) : "");
}

}  // namespace

Bytes encode_get_flow_count() {
  return flow_request(IPCTNL_MSG_CT_GET_STATS, AF_UNSPEC).take();
}

Bytes encode_list_flows(Family family) {
  return flow_request(IPCTNL_MSG_CT_GET, family_number(family)).take();
}

Bytes encode_list_flows(Family family, Protocol protocol,
                        const std::optional<FlowEnd>& destination) {
  auto out = flow_request(IPCTNL_MSG_CT_GET, family_number(family));
  const bool by_address = destination && family == Family::ipv4;
  {
    const auto tuple = out.nest(CTA_TUPLE_ORIG);
    if (by_address) {
      const auto nest = out.nest(CTA_TUPLE_IP);
      out.put_bytes(CTA_IP_V4_DST, destination->address.bytes());
    }
    const auto nest = out.nest(CTA_TUPLE_PROTO);
    out.put_u8(CTA_PROTO_NUM, static_cast<std::uint8_t>(protocol));
    if (destination) out.put_be16(CTA_PROTO_DST_PORT, destination->port);
  }
  {
    const auto nest = out.nest(CTA_FILTER);
    out.put_u32(CTA_FILTER_ORIG_FLAGS, kFilterProtocol |
                                           (destination ? kFilterDestinationPort : 0) |
                                           (by_address ? kFilterDestinationAddress : 0));
  }
  return std::move(out).take();
}

bool is_filtered_for(ByteView payload, Protocol wanted, const std::optional<FlowEnd>& destination) {
  if (payload.size() < sizeof(nfgenmsg)) return true;
  const auto in = AttrReader::parse(payload.subspan(sizeof(nfgenmsg)), kFlowPolicy);
  const auto original = in ? in->nested(CTA_TUPLE_ORIG) : std::nullopt;
  if (!original) return true;
  const auto tuple = AttrReader::parse(*original, kTuplePolicy);
  const auto protocol = tuple ? tuple->nested(CTA_TUPLE_PROTO) : std::nullopt;
  const auto addresses = tuple ? tuple->nested(CTA_TUPLE_IP) : std::nullopt;
  if (!protocol || !addresses) return true;
  const auto transport = AttrReader::parse(*protocol, kProtocolPolicy);
  const auto ip = AttrReader::parse(*addresses, kIpPolicy);
  if (!transport || !ip) return true;
  if (transport->u8(CTA_PROTO_NUM) != static_cast<std::uint8_t>(wanted)) return false;
  if (!destination) return true;
  if (transport->be16(CTA_PROTO_DST_PORT) != destination->port) return false;
  const auto address = ip->bytes(CTA_IP_V4_DST);
  return !address || std::ranges::equal(*address, destination->address.bytes());
}

Bytes encode_remove_flow(const Flow& flow) {
  const auto family = flow.destination.address.family();
  const auto attributes = address_attributes(family);
  auto out = flow_request(IPCTNL_MSG_CT_DELETE, family_number(family));
  {
    // Without a tuple this message flushes the table.
    const auto tuple = out.nest(CTA_TUPLE_ORIG);
    {
      const auto nest = out.nest(CTA_TUPLE_IP);
      out.put_bytes(attributes.source, flow.source.address.bytes());
      out.put_bytes(attributes.destination, flow.destination.address.bytes());
    }
    const auto nest = out.nest(CTA_TUPLE_PROTO);
    out.put_u8(CTA_PROTO_NUM, static_cast<std::uint8_t>(flow.protocol));
    out.put_be16(CTA_PROTO_SRC_PORT, flow.source.port);
    out.put_be16(CTA_PROTO_DST_PORT, flow.destination.port);
  }
  out.put_be32(CTA_ID, flow.id);
  return std::move(out).take();
}

Result<std::size_t> decode_flow_count(ByteView payload) {
  constexpr std::array kCountPolicy = {AttrRule{CTA_STATS_GLOBAL_ENTRIES, AttrKind::u32}};
  if (payload.size() < sizeof(nfgenmsg)) return malformed("a number of flows without its header");
  const auto in = AttrReader::parse(payload.subspan(sizeof(nfgenmsg)), kCountPolicy);
  if (!in) return in.error();
  const auto count = in->be32(CTA_STATS_GLOBAL_ENTRIES);
  if (!count) return malformed("no number of flows");
  return std::size_t{*count};
}

Result<std::optional<Flow>> decode_listed(ByteView payload, Protocol protocol) {
  const auto both = decode_directions(payload, protocol);
  if (!both) return both.error();
  if (!*both) return std::optional<Flow>{};
  const auto& [there, back, in] = **both;
  const auto id = in.be32(CTA_ID);
  if (!id) return malformed("a flow without its id");
  constexpr std::uint32_t kOffload = 1U << 14;        // IPS_OFFLOAD
  constexpr std::uint32_t kDestinationNat = 1U << 5;  // IPS_DST_NAT
  const auto status = in.be32(CTA_STATUS).value_or(0) & (kOffload | kDestinationNat);
  return std::optional<Flow>{Flow{there.source, there.destination, back.source, *id, protocol,
                                  is_answered(in), status == kOffload}};
}

Result<std::optional<TrackedFlow>> decode_flow(ByteView payload, Protocol protocol) {
  const auto both = decode_directions(payload, protocol);
  if (!both) return both.error();
  if (!*both) return std::optional<TrackedFlow>{};
  const auto& [there, back, in] = **both;
  auto state = decode_state(in);
  if (!state) return state.error();
  return std::optional<TrackedFlow>{TrackedFlow{.protocol = protocol,
                                                .source = there.source,
                                                .destination = there.destination,
                                                .server = back.source,
                                                .seen = back.destination,
                                                .state = std::move(*state),
                                                .answered = is_answered(in),
                                                .expires = in.be32(CTA_TIMEOUT).value_or(0)}};
}

}  // namespace ipvsproxier::netlink
