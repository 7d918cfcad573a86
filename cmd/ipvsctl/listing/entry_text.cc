#include "cmd/ipvsctl/listing/entry_text.h"

#include <fmt/format.h>

namespace ipvsproxier::ctl {

using netlink::ForwardMethod;
using netlink::RealServer;
using netlink::ServiceReading;
using netlink::VirtualService;

std::string version_text(const netlink::IpvsInfo& info) {
  return fmt::format("{}.{}.{}", info.version >> 16 & 0xff, info.version >> 8 & 0xff,
                     info.version & 0xff);
}

std::string mark_text(const netlink::VirtualServiceKey& key) {
  return fmt::format("FWM  {}{}", static_cast<std::int32_t>(key.fwmark),
                     key.address.family() == netlink::Family::ipv6 ? " IPv6" : "");
}

bool has_scheduler_flags(const VirtualService& service) {
  constexpr auto kSchedulerFlags =
      netlink::kSchedulerFlag1 | netlink::kSchedulerFlag2 | netlink::kSchedulerFlag3;
  return (service.flags & kSchedulerFlags) != 0;
}

std::string scheduler_flags(const VirtualService& service) {
  const bool hashing = service.scheduler == "sh" || service.scheduler == "mh";
  const auto name = [&](std::string_view suffix, int number) {
    return hashing ? fmt::format("{}-{}", service.scheduler.view(), suffix)
                   : fmt::format("flag-{}", number);
  };
  std::string names;
  const auto append = [&](const std::string& one) { names += (names.empty() ? "" : ",") + one; };
  if ((service.flags & netlink::kSchedulerFlag1) != 0) append(name("fallback", 1));
  if ((service.flags & netlink::kSchedulerFlag2) != 0) append(name("port", 2));
  if ((service.flags & netlink::kSchedulerFlag3) != 0 && !hashing) append("flag-3");
  return names;
}

std::string netmask_text(const ServiceReading& reading) {
  const auto family = reading.service.key.address.family();
  if (reading.odd_netmask) return netlink::IpAddress::v4(*reading.odd_netmask).to_string();
  if (reading.service.netmask_bits == address_bits(family)) return "";
  if (family == netlink::Family::ipv6) return std::to_string(reading.service.netmask_bits);
  return netlink::IpPrefix::of(netlink::IpAddress::v4(~std::uint32_t{0}),
                               reading.service.netmask_bits)
      .address.to_string();
}

std::string_view method_word(ForwardMethod method) {
  switch (method) {
    case ForwardMethod::masquerade:
      return "Masq";
    case ForwardMethod::local:
      return "Local";
    case ForwardMethod::tunnel:
      return "Tunnel";
    case ForwardMethod::route:
      return "Route";
  }
  return "?";
}

TunnelChecksum tunnel_checksum(const RealServer& server) {
  constexpr std::uint16_t kChecksum = 1;        // IP_VS_TUNNEL_ENCAP_FLAG_CSUM
  constexpr std::uint16_t kRemoteChecksum = 2;  // IP_VS_TUNNEL_ENCAP_FLAG_REMCSUM
  if ((server.tunnel_flags & kChecksum) != 0) return TunnelChecksum::whole;
  if ((server.tunnel_flags & kRemoteChecksum) != 0) return TunnelChecksum::remote;
  return TunnelChecksum::none;
}

std::string tunnel_text(const RealServer& server) {
  if (server.method != ForwardMethod::tunnel) return "";
  if (server.tunnel_type != kTunnelGue && server.tunnel_type != kTunnelGre) return "ipip";
  const auto checksum = tunnel_checksum(server);
  const std::string_view guard = checksum == TunnelChecksum::whole    ? "+c"
                                 : checksum == TunnelChecksum::remote ? "r+c"
                                                                      : "-c";
  return server.tunnel_type == kTunnelGue ? fmt::format("gue:{}:{}", server.tunnel_port, guard)
                                          : fmt::format("gre:{}", guard);
}

}  // namespace ipvsproxier::ctl
