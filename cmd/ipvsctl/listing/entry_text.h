#pragma once

// Texts of table entries that several forms share. Pure, any thread.

#include <string>
#include <string_view>

#include "netlink/ipvs/ipvs_readings.h"

namespace ipvsproxier::ctl {

std::string version_text(const netlink::IpvsInfo& info);  // "1.2.1"

// "FWM  7", "FWM  7 IPv6": as in ipvsadm, the mark is a signed number.
std::string mark_text(const netlink::VirtualServiceKey& key);

// "sh-fallback,sh-port", "flag-1"; "" without flags. For sh and mh two flags have names; the third
// has none and is left out, as in ipvsadm.
std::string scheduler_flags(const netlink::VirtualService& service);
bool has_scheduler_flags(const netlink::VirtualService& service);

// The persistence mask unless it means single clients: "255.255.255.0", "64"; else "".
std::string netmask_text(const netlink::ServiceReading& service);

std::string_view method_word(netlink::ForwardMethod method);  // "Masq"

// "ipip", "gue:6080:+c", "gre:-c"; "" for a server without a tunnel.
std::string tunnel_text(const netlink::RealServer& server);

// The checksum in tunnel packets; ipvsadm's options are --tun-nocsum, --tun-csum and --tun-remcsum.
enum class TunnelChecksum : std::uint8_t { none, whole, remote };
TunnelChecksum tunnel_checksum(const netlink::RealServer& server);

// IP_VS_CONN_F_TUNNEL_TYPE_* of <linux/ip_vs.h>, besides IPIP.
inline constexpr std::uint8_t kTunnelGue = 1;
inline constexpr std::uint8_t kTunnelGre = 2;

}  // namespace ipvsproxier::ctl
