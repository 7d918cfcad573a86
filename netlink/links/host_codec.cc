#include "netlink/links/host_codec.h"

#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace ipvsproxier::netlink {

namespace {

constexpr std::array kRoutePolicy = {
    AttrRule{RTA_OIF, AttrKind::u32},
    AttrRule{RTA_GATEWAY, AttrKind::bytes, 4, 16},
    AttrRule{RTA_PREFSRC, AttrKind::bytes, 4, 16},
};

constexpr std::array kListenerPolicy = {
    AttrRule{INET_DIAG_SKV6ONLY, AttrKind::u8},
};

std::uint8_t number_of(Family family) {
  return family == Family::ipv4 ? AF_INET : AF_INET6;
}

std::optional<IpAddress> address_of(Family family, const std::optional<ByteView>& bytes) {
  return bytes ? IpAddress::from_bytes(family, *bytes) : std::nullopt;
}

}  // namespace

Bytes encode_get_route(const RouteQuestion& question) {
  const auto bits = address_bits(question.destination.family());
  rtmsg header{};
  header.rtm_family = number_of(question.destination.family());
  header.rtm_dst_len = bits;
  header.rtm_src_len = question.source ? bits : std::uint8_t{0};
  MessageWriter out(RTM_GETROUTE, 0, bytes_of(header));
  out.put_bytes(RTA_DST, question.destination.bytes());
  if (question.source) out.put_bytes(RTA_SRC, question.source->bytes());
  if (question.in_link != 0) out.put_u32(RTA_IIF, static_cast<std::uint32_t>(question.in_link));
  if (question.mark != 0) out.put_u32(RTA_MARK, question.mark);
  return std::move(out).take();
}

Result<Route> decode_route(ByteView payload) {
  rtmsg header;
  if (payload.size() < sizeof header) return malformed("a route without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kRoutePolicy);
  if (!in) return in.error();
  const auto family = header.rtm_family == AF_INET ? Family::ipv4 : Family::ipv6;
  return Route{.local = header.rtm_type == RTN_LOCAL,
               .out_link = static_cast<std::int32_t>(in->u32(RTA_OIF).value_or(0)),
               .gateway = address_of(family, in->bytes(RTA_GATEWAY)),
               .source = address_of(family, in->bytes(RTA_PREFSRC))};
}

Bytes encode_list_listeners(Family family, Protocol protocol) {
  // Sockets that accept from any peer: TCP_LISTEN for TCP, unconnected (TCP_CLOSE) for UDP.
  inet_diag_req_v2 header{};
  header.sdiag_family = number_of(family);
  header.sdiag_protocol = static_cast<std::uint8_t>(protocol);
  header.idiag_states = 1U << (protocol == Protocol::tcp ? TCP_LISTEN : TCP_CLOSE);
  return MessageWriter(SOCK_DIAG_BY_FAMILY, 0, bytes_of(header)).take();
}

Result<Listener> decode_listener(ByteView payload, Protocol protocol) {
  inet_diag_msg header;
  if (payload.size() < sizeof header) return malformed("a socket without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kListenerPolicy);
  if (!in) return in.error();
  const auto family = header.idiag_family == AF_INET ? Family::ipv4 : Family::ipv6;
  const auto bytes = bytes_of(header.id.idiag_src).first(address_bits(family) / 8);
  const auto address = *IpAddress::from_bytes(family, bytes);
  const bool only_v6 = in->u8(INET_DIAG_SKV6ONLY).value_or(1) != 0;
  return Listener{.protocol = protocol,
                  .address = address,
                  .port = ntohs(header.id.idiag_sport),
                  .both_families = family == Family::ipv6 && address.is_any() && !only_v6};
}

}  // namespace ipvsproxier::netlink
