#include "netlink/links/link_codec.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

namespace {

constexpr std::array kLinkPolicy = {
    AttrRule{IFLA_IFNAME, AttrKind::string, 0, IFNAMSIZ - 1},
    AttrRule{IFLA_LINKINFO, AttrKind::nested},
    AttrRule{IFLA_MASTER, AttrKind::u32},
};

constexpr std::array kLinkInfoPolicy = {
    AttrRule{IFLA_INFO_KIND, AttrKind::string, 0, 64},
};

constexpr std::array kAddressPolicy = {
    AttrRule{IFA_ADDRESS, AttrKind::bytes, 4, 16},
    AttrRule{IFA_LOCAL, AttrKind::bytes, 4, 16},
};

constexpr std::array kLocalRoutePolicy = {
    AttrRule{RTA_DST, AttrKind::bytes, 4, 16},
    AttrRule{RTA_PRIORITY, AttrKind::u32},
};

// The rtm_protocol of our routes; used neither in linux/rtnetlink.h nor in iproute2's rt_protos.
constexpr std::uint8_t kRouteProtocol = 107;
constexpr std::uint32_t kRouteMetric = 107;
// The index of lo in every network namespace (LOOPBACK_IFINDEX in include/net/flow.h; 6.1).
constexpr std::uint32_t kLoIndex = 1;

std::uint8_t rtnetlink_family(Family family) {
  return family == Family::ipv4 ? AF_INET : AF_INET6;
}

rtmsg local_route_header(Family family) {
  rtmsg header{};
  header.rtm_family = rtnetlink_family(family);
  header.rtm_table = RT_TABLE_LOCAL;
  header.rtm_protocol = kRouteProtocol;
  header.rtm_type = RTN_LOCAL;
  return header;
}

MessageWriter link_request(std::uint16_t type, std::uint16_t flags) {
  return MessageWriter(type, flags, bytes_of(ifinfomsg{}));
}

}  // namespace

Bytes encode_get_link(std::string_view name) {
  auto out = link_request(RTM_GETLINK, 0);
  out.put_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  out.put_string(IFLA_IFNAME, name);
  return std::move(out).take();
}

Bytes encode_new_dummy(std::string_view name) {
  auto out = link_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  out.put_u32(IFLA_TXQLEN, 0);
  out.put_string(IFLA_IFNAME, name);
  {
    const auto nest = out.nest(IFLA_LINKINFO);
    out.put_string(IFLA_INFO_KIND, "dummy");
  }
  return std::move(out).take();
}

Bytes encode_delete_link(std::int32_t index) {
  ifinfomsg header{};
  header.ifi_index = index;
  return MessageWriter(RTM_DELLINK, 0, bytes_of(header)).take();
}

Bytes encode_address_op(std::int32_t link_index, const AddressOp& op) {
  ifaddrmsg header{};
  header.ifa_family = rtnetlink_family(op.address.family());
  header.ifa_prefixlen = address_bits(op.address.family());
  header.ifa_scope = RT_SCOPE_UNIVERSE;
  header.ifa_index = static_cast<std::uint32_t>(link_index);
  MessageWriter out(op.add ? RTM_NEWADDR : RTM_DELADDR, op.add ? NLM_F_CREATE | NLM_F_EXCL : 0,
                    bytes_of(header));
  out.put_bytes(IFA_LOCAL, op.address.bytes());
  out.put_bytes(IFA_ADDRESS, op.address.bytes());
  return std::move(out).take();
}

// Without NLM_F_EXCL: IPv4 would then refuse the route if any route has this address and metric.
Bytes encode_local_route_op(const AddressOp& op) {
  auto header = local_route_header(op.address.family());
  header.rtm_dst_len = address_bits(op.address.family());
  header.rtm_scope = RT_SCOPE_HOST;
  MessageWriter out(op.add ? RTM_NEWROUTE : RTM_DELROUTE, op.add ? NLM_F_CREATE : 0,
                    bytes_of(header));
  out.put_bytes(RTA_DST, op.address.bytes());
  out.put_u32(RTA_OIF, kLoIndex);
  out.put_u32(RTA_PRIORITY, kRouteMetric);
  return std::move(out).take();
}

Bytes encode_list_links() {
  auto out = link_request(RTM_GETLINK, 0);
  out.put_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  return std::move(out).take();
}

Bytes encode_list_addresses() {
  return MessageWriter(RTM_GETADDR, 0, bytes_of(ifaddrmsg{})).take();
}

Bytes encode_list_local_routes(Family family) {
  return MessageWriter(RTM_GETROUTE, 0, bytes_of(local_route_header(family))).take();
}

Result<LinkRecord> decode_link(ByteView payload) {
  ifinfomsg header;
  if (payload.size() < sizeof header) return malformed("a link without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kLinkPolicy);
  if (!in) return in.error();
  const auto name = in->string(IFLA_IFNAME);
  if (!name) return malformed(fmt::format("link {} without a name", header.ifi_index));
  LinkRecord link{.index = header.ifi_index, .name = std::string(*name)};
  link.master = static_cast<std::int32_t>(in->u32(IFLA_MASTER).value_or(0));
  if (const auto nest = in->nested(IFLA_LINKINFO)) {
    const auto info = AttrReader::parse(*nest, kLinkInfoPolicy);
    if (!info) return info.error();
    link.kind = info->string(IFLA_INFO_KIND).value_or("");
  }
  return link;
}

Result<AddressRecord> decode_address(ByteView payload) {
  ifaddrmsg header;
  if (payload.size() < sizeof header) return malformed("an address without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  if (header.ifa_family != AF_INET && header.ifa_family != AF_INET6)
    return Error{ErrorKind::unsupported, 0,
                 fmt::format("an address of family {}", header.ifa_family)};
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kAddressPolicy);
  if (!in) return in.error();
  const auto local = in->bytes(IFA_LOCAL);
  const auto bytes = local ? local : in->bytes(IFA_ADDRESS);
  const auto family = header.ifa_family == AF_INET ? Family::ipv4 : Family::ipv6;
  const auto address = bytes ? IpAddress::from_bytes(family, *bytes) : std::nullopt;
  if (!address || header.ifa_prefixlen > address_bits(family))
    return malformed(fmt::format("an address on link {} of a wrong size", header.ifa_index));
  return AddressRecord{
      .link_index = static_cast<std::int32_t>(header.ifa_index),
      .address = *address,
      .prefix_length = header.ifa_prefixlen,
      .global = header.ifa_scope == RT_SCOPE_UNIVERSE,
      .secondary = family == Family::ipv4 && (header.ifa_flags & IFA_F_SECONDARY) != 0};
}

Result<std::optional<IpAddress>> decode_local_route(ByteView payload) {
  rtmsg header;
  if (payload.size() < sizeof header) return malformed("a route without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  const auto family = header.rtm_family == AF_INET ? Family::ipv4 : Family::ipv6;
  if (header.rtm_family != rtnetlink_family(family) || header.rtm_table != RT_TABLE_LOCAL ||
      header.rtm_type != RTN_LOCAL || header.rtm_protocol != kRouteProtocol ||
      header.rtm_dst_len != address_bits(family))
    return std::optional<IpAddress>{};
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kLocalRoutePolicy);
  if (!in) return in.error();
  const auto bytes = in->bytes(RTA_DST);
  auto address = bytes ? IpAddress::from_bytes(family, *bytes) : std::nullopt;
  if (!address) return malformed("a local route to an address of a wrong size");
  return in->u32(RTA_PRIORITY) == kRouteMetric ? address : std::nullopt;
}

}  // namespace ipvsproxier::netlink
