#pragma once

// The IPVS generic netlink family: encodes requests and decodes replies. Pure; any thread.
//
//   nlmsghdr | genlmsghdr | IPVS_CMD_ATTR_SERVICE                | IPVS_CMD_ATTR_DEST
//            | cmd ver 0  | { AF u16                             | { ADDR_FAMILY u16
//                         |   PROTOCOL u16, ADDR 16, PORT be16   |   ADDR 16, PORT be16
//                         |   or FWMARK u32                      |   FWD_METHOD u32, WEIGHT u32
//                         |   -- that much names a service --    |   TUN_TYPE u8, TUN_PORT be16,
//                         |   SCHED_NAME, PE_NAME string         |   TUN_FLAGS u16
//                         |   FLAGS { u32 flags, u32 mask }      |   U_THRESH u32, L_THRESH u32
//                         |   TIMEOUT u32 s, NETMASK }           |   read only: ACTIVE_CONNS, ... }
//
// NETMASK is an address mask in network order for IPv4 and a prefix length in host order for IPv6;
// an IPv4 address fills the first 4 of its 16 bytes. Source: net/netfilter/ipvs/ip_vs_ctl.c (6.1).

#include <cstdint>
#include <string_view>

#include "netlink/ipvs/ipvs_readings.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

inline constexpr std::string_view kIpvsFamilyName = "IPVS";

// Requests; `family` is the id that the kernel gave to the IPVS family.
Bytes encode_ipvs_op(std::uint16_t family, const IpvsOp& op);
Bytes encode_list_services(std::uint16_t family);                               // a dump
Bytes encode_list_servers(std::uint16_t family, const VirtualServiceKey& key);  // a dump
Bytes encode_get_service(std::uint16_t family, const VirtualServiceKey& key);
Bytes encode_get_timeouts(std::uint16_t family);
Bytes encode_get_info(std::uint16_t family);
Bytes encode_list_daemons(std::uint16_t family);  // a dump
Bytes encode_set_timeouts(std::uint16_t family, const IpvsTimeouts& timeouts);

// Decoders of replies; `payload` starts with genlmsghdr. `malformed` for bytes that break the
// policy, `unsupported` for an entry that these types cannot express (a protocol other than TCP,
// UDP and SCTP, the cache-bypass method). The kernel's "hashed" flag is dropped. Of an IPv4 mask
// with holes only the leading ones count.
Result<VirtualService> decode_service(ByteView payload);
// `service_family` is used if the kernel names no family (before 3.18).
Result<ListedServer> decode_server(ByteView payload, Family service_family);
Result<IpvsTimeouts> decode_timeouts(ByteView payload);

// The same entries with counters: those of 64 bits (since Linux 4.1), else, of virtual services,
// the older ones (IpvsTraffic::narrow).
Result<ServiceReading> decode_service_reading(ByteView payload);
Result<ServerReading> decode_server_reading(ByteView payload, Family service_family);
// The counters of the virtual service that was asked for; `malformed` without counters, or with
// those of another.
Result<IpvsTraffic> decode_traffic(ByteView payload, const VirtualServiceKey& asked);
Result<IpvsInfo> decode_info(ByteView payload);
Result<SyncDaemon> decode_daemon(ByteView payload);

}  // namespace ipvsproxier::netlink
