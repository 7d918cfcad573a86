#include "netlink/links/loop_codec.h"

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

namespace {

// Given by us, not made up by the kernel, and so left alone by udev. Locally administered.
constexpr std::array<std::uint8_t, 6> kHardwareAddress = {0x02, 'k', 'u', 'b', 'e', 'l'};
constexpr unsigned kFlags = IFF_UP | IFF_NOARP;
constexpr std::uint16_t kInetConf = 1;  // IFLA_INET_CONF
// Keep apart from other routes: the kernel's own to ::1 comes first, and that of a VIP has another.
constexpr std::uint8_t kLoopRouteProtocol = 107;
constexpr std::uint32_t kLoopRouteMetric = 108;

constexpr std::array kLoopLinkPolicy = {
    AttrRule{IFLA_IFNAME, AttrKind::string, 0, IFNAMSIZ - 1},
    AttrRule{IFLA_LINKINFO, AttrKind::nested},
    AttrRule{IFLA_LINK, AttrKind::u32},
    AttrRule{IFLA_LINK_NETNSID, AttrKind::u32},
    AttrRule{IFLA_ADDRESS, AttrKind::bytes, 0, 32},
    AttrRule{IFLA_AF_SPEC, AttrKind::nested},
};
constexpr std::array kLoopInfoPolicy = {AttrRule{IFLA_INFO_KIND, AttrKind::string, 0, 64}};
constexpr std::array kLinkFamilyPolicy = {AttrRule{AF_INET, AttrKind::nested}};
constexpr std::array kInetPolicy = {AttrRule{kInetConf, AttrKind::bytes, 0, 4096}};

void put_ends(MessageWriter& out, const std::string& name) {
  out.put_string(IFLA_IFNAME, name);
  out.put_bytes(IFLA_ADDRESS, kHardwareAddress);
}

// `spec` is the value of IFLA_AF_SPEC. Values stand in the order of their numbers, from 1 on.
Result<bool> takes_loopback_in(ByteView spec) {
  const auto families = AttrReader::parse(spec, kLinkFamilyPolicy);
  if (!families) return families.error();
  const auto of_ipv4 = families->nested(AF_INET);
  if (!of_ipv4) return false;
  const auto settings = AttrReader::parse(*of_ipv4, kInetPolicy);
  if (!settings) return settings.error();
  const auto values = settings->bytes(kInetConf);
  std::uint32_t value = 0;
  constexpr auto kPlace = (IPV4_DEVCONF_ROUTE_LOCALNET - 1) * sizeof value;
  if (!values || values->size() < kPlace + sizeof value) return false;
  std::memcpy(&value, values->data() + kPlace, sizeof value);
  return value != 0;
}

}  // namespace

Bytes encode_new_loop(const std::string& first, const std::string& second) {
  MessageWriter peer(RTM_NEWLINK, 0, bytes_of(ifinfomsg{}));
  put_ends(peer, second);
  const auto of_peer = std::move(peer).take();
  MessageWriter out(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, bytes_of(ifinfomsg{}));
  put_ends(out, first);
  {
    const auto info = out.nest(IFLA_LINKINFO);
    out.put_string(IFLA_INFO_KIND, "veth");
    const auto data = out.nest(IFLA_INFO_DATA);
    out.put_bytes(VETH_INFO_PEER, ByteView(of_peer).subspan(kMessageHeaderSize));
  }
  return std::move(out).take();
}

Bytes encode_settle_loop(std::int32_t index, bool takes_loopback) {
  ifinfomsg header{};
  header.ifi_index = index;
  header.ifi_flags = kFlags;
  header.ifi_change = kFlags;
  MessageWriter out(RTM_SETLINK, 0, bytes_of(header));
  out.put_bytes(IFLA_ADDRESS, kHardwareAddress);
  if (takes_loopback) {
    const auto spec = out.nest(IFLA_AF_SPEC);
    const auto family = out.nest(AF_INET);
    const auto settings = out.nest(kInetConf);
    out.put_u32(IPV4_DEVCONF_ROUTE_LOCALNET, 1);
  }
  return std::move(out).take();
}

Bytes encode_loop_route(std::int32_t index, const IpAddress& address, bool local) {
  const bool is_v4 = address.family() == Family::ipv4;
  rtmsg header{};
  header.rtm_family = is_v4 ? AF_INET : AF_INET6;
  header.rtm_dst_len = address_bits(address.family());
  header.rtm_protocol = kLoopRouteProtocol;
  header.rtm_table = local ? RT_TABLE_LOCAL : RT_TABLE_MAIN;
  header.rtm_type = local ? RTN_LOCAL : RTN_UNICAST;
  header.rtm_scope = local ? RT_SCOPE_HOST : is_v4 ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  MessageWriter out(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, bytes_of(header));
  out.put_bytes(RTA_DST, address.bytes());
  out.put_u32(RTA_OIF, static_cast<std::uint32_t>(index));
  out.put_u32(RTA_PRIORITY, kLoopRouteMetric);
  return std::move(out).take();
}

Bytes encode_unreachable(const IpPrefix& range, bool add) {
  rtmsg header{};
  header.rtm_family = range.family() == Family::ipv4 ? AF_INET : AF_INET6;
  header.rtm_dst_len = range.length;
  header.rtm_protocol = kLoopRouteProtocol;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_type = RTN_UNREACHABLE;
  MessageWriter out(add ? RTM_NEWROUTE : RTM_DELROUTE, add ? NLM_F_CREATE | NLM_F_EXCL : 0,
                    bytes_of(header));
  out.put_bytes(RTA_DST, range.address.bytes());
  out.put_u32(RTA_PRIORITY, kLoopRouteMetric);
  return std::move(out).take();
}

Result<LoopLink> decode_loop_link(ByteView payload) {
  ifinfomsg header;
  if (payload.size() < sizeof header) return malformed("a link without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  const auto in = AttrReader::parse(payload.subspan(sizeof header), kLoopLinkPolicy);
  if (!in) return in.error();
  const auto name = in->string(IFLA_IFNAME);
  if (!name) return malformed(fmt::format("link {} without a name", header.ifi_index));
  LoopLink link{.index = header.ifi_index, .name = std::string(*name)};
  link.up = (header.ifi_flags & IFF_UP) != 0;
  link.no_arp = (header.ifi_flags & IFF_NOARP) != 0;
  if (!in->has(IFLA_LINK_NETNSID))
    link.other_end = static_cast<std::int32_t>(in->u32(IFLA_LINK).value_or(0));
  const auto address = in->bytes(IFLA_ADDRESS);
  link.has_address = address && std::ranges::equal(*address, kHardwareAddress);
  if (const auto nest = in->nested(IFLA_LINKINFO)) {
    const auto info = AttrReader::parse(*nest, kLoopInfoPolicy);
    if (!info) return info.error();
    link.kind = info->string(IFLA_INFO_KIND).value_or("");
  }
  if (const auto spec = in->nested(IFLA_AF_SPEC)) {
    const auto takes = takes_loopback_in(*spec);
    if (!takes) return takes.error();
    link.takes_loopback = *takes;
  }
  return link;
}

bool is_settled(const LoopLink& link, bool takes_loopback) {
  return link.up && link.no_arp && link.has_address && (link.takes_loopback || !takes_loopback);
}

}  // namespace ipvsproxier::netlink
