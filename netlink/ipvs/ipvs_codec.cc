#include "netlink/ipvs/ipvs_codec.h"

#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

namespace {

constexpr std::array kCommandPolicy = {
    AttrRule{IPVS_CMD_ATTR_SERVICE, AttrKind::nested},
    AttrRule{IPVS_CMD_ATTR_DEST, AttrKind::nested},
    AttrRule{IPVS_CMD_ATTR_DAEMON, AttrKind::nested},
    AttrRule{IPVS_CMD_ATTR_TIMEOUT_TCP, AttrKind::u32},
    AttrRule{IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, AttrKind::u32},
    AttrRule{IPVS_CMD_ATTR_TIMEOUT_UDP, AttrKind::u32},
};

constexpr std::array kServicePolicy = {
    AttrRule{IPVS_SVC_ATTR_AF, AttrKind::u16},
    AttrRule{IPVS_SVC_ATTR_PROTOCOL, AttrKind::u16},
    AttrRule{IPVS_SVC_ATTR_ADDR, AttrKind::bytes, 4, 16},
    AttrRule{IPVS_SVC_ATTR_PORT, AttrKind::u16},
    AttrRule{IPVS_SVC_ATTR_FWMARK, AttrKind::u32},
    AttrRule{IPVS_SVC_ATTR_SCHED_NAME, AttrKind::string, 0, IP_VS_SCHEDNAME_MAXLEN - 1},
    AttrRule{IPVS_SVC_ATTR_FLAGS, AttrKind::bytes, 8, 8},
    AttrRule{IPVS_SVC_ATTR_TIMEOUT, AttrKind::u32},
    AttrRule{IPVS_SVC_ATTR_NETMASK, AttrKind::u32},
    AttrRule{IPVS_SVC_ATTR_PE_NAME, AttrKind::string, 0, IP_VS_PENAME_MAXLEN - 1},
    AttrRule{IPVS_SVC_ATTR_STATS, AttrKind::nested},
    AttrRule{IPVS_SVC_ATTR_STATS64, AttrKind::nested},
};

constexpr std::array kServerPolicy = {
    AttrRule{IPVS_DEST_ATTR_ADDR, AttrKind::bytes, 4, 16},
    AttrRule{IPVS_DEST_ATTR_PORT, AttrKind::u16},
    AttrRule{IPVS_DEST_ATTR_FWD_METHOD, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_WEIGHT, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_TUN_TYPE, AttrKind::u8},
    AttrRule{IPVS_DEST_ATTR_TUN_PORT, AttrKind::u16},
    AttrRule{IPVS_DEST_ATTR_TUN_FLAGS, AttrKind::u16},
    AttrRule{IPVS_DEST_ATTR_U_THRESH, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_L_THRESH, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_ACTIVE_CONNS, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_INACT_CONNS, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_PERSIST_CONNS, AttrKind::u32},
    AttrRule{IPVS_DEST_ATTR_ADDR_FAMILY, AttrKind::u16},
    AttrRule{IPVS_DEST_ATTR_STATS64, AttrKind::nested},
};

constexpr std::array kTrafficPolicy = {
    AttrRule{IPVS_STATS_ATTR_CONNS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_INPKTS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_OUTPKTS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_INBYTES, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_OUTBYTES, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_CPS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_INPPS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_OUTPPS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_INBPS, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_OUTBPS, AttrKind::u64},
};

// ip_vs_genl_fill_stats (6.1). Its rates are not read.
constexpr std::array kNarrowTrafficPolicy = {
    AttrRule{IPVS_STATS_ATTR_CONNS, AttrKind::u32},
    AttrRule{IPVS_STATS_ATTR_INPKTS, AttrKind::u32},
    AttrRule{IPVS_STATS_ATTR_OUTPKTS, AttrKind::u32},
    AttrRule{IPVS_STATS_ATTR_INBYTES, AttrKind::u64},
    AttrRule{IPVS_STATS_ATTR_OUTBYTES, AttrKind::u64},
};

constexpr std::array kInfoPolicy = {
    AttrRule{IPVS_INFO_ATTR_VERSION, AttrKind::u32},
    AttrRule{IPVS_INFO_ATTR_CONN_TAB_SIZE, AttrKind::u32},
};

constexpr std::array kDaemonPolicy = {
    AttrRule{IPVS_DAEMON_ATTR_STATE, AttrKind::u32},
    AttrRule{IPVS_DAEMON_ATTR_MCAST_IFN, AttrKind::string, 0, IP_VS_IFNAME_MAXLEN - 1},
    AttrRule{IPVS_DAEMON_ATTR_SYNC_ID, AttrKind::u32},
    AttrRule{IPVS_DAEMON_ATTR_SYNC_MAXLEN, AttrKind::u16},
    AttrRule{IPVS_DAEMON_ATTR_MCAST_GROUP, AttrKind::bytes, 4, 4},
    AttrRule{IPVS_DAEMON_ATTR_MCAST_GROUP6, AttrKind::bytes, 16, 16},
    AttrRule{IPVS_DAEMON_ATTR_MCAST_PORT, AttrKind::u16},
    AttrRule{IPVS_DAEMON_ATTR_MCAST_TTL, AttrKind::u8},
};

static_assert(kServicePolicy.size() <= AttrReader::kMaxRules);
static_assert(kServerPolicy.size() <= AttrReader::kMaxRules);

Error unsupported(std::string where) {
  return Error{ErrorKind::unsupported, 0, std::move(where)};
}

std::uint16_t to_af(Family family) {
  return family == Family::ipv4 ? AF_INET : AF_INET6;
}

std::optional<Family> from_af(std::uint16_t af) {
  if (af == AF_INET) return Family::ipv4;
  if (af == AF_INET6) return Family::ipv6;
  return std::nullopt;
}

// union nf_inet_addr: 16 bytes for both families.
std::array<std::uint8_t, 16> to_union(const IpAddress& address) {
  std::array<std::uint8_t, 16> bytes{};
  std::ranges::copy(address.bytes(), bytes.begin());
  return bytes;
}

std::optional<IpAddress> from_union(Family family, ByteView bytes) {
  const std::size_t size = address_bits(family) / 8U;
  if (bytes.size() < size) return std::nullopt;
  return IpAddress::from_bytes(family, bytes.first(size));
}

MessageWriter ipvs_request(std::uint16_t family, std::uint8_t command) {
  genlmsghdr header{};
  header.cmd = command;
  header.version = IPVS_GENL_VERSION;
  return MessageWriter(family, 0, bytes_of(header));
}

void put_service_key(MessageWriter& out, const VirtualServiceKey& key) {
  out.put_u16(IPVS_SVC_ATTR_AF, to_af(key.address.family()));
  if (key.fwmark != 0) return out.put_u32(IPVS_SVC_ATTR_FWMARK, key.fwmark);
  out.put_u16(IPVS_SVC_ATTR_PROTOCOL, static_cast<std::uint16_t>(key.protocol));
  out.put_bytes(IPVS_SVC_ATTR_ADDR, to_union(key.address));
  out.put_be16(IPVS_SVC_ATTR_PORT, key.port);
}

void put_netmask(MessageWriter& out, const VirtualService& service) {
  if (service.key.address.family() == Family::ipv6)
    return out.put_u32(IPVS_SVC_ATTR_NETMASK, service.netmask_bits);
  const auto bits = std::min<unsigned>(service.netmask_bits, 32);
  out.put_be32(IPVS_SVC_ATTR_NETMASK, bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits));
}

void put_service(MessageWriter& out, const VirtualService& service) {
  const auto nest = out.nest(IPVS_CMD_ATTR_SERVICE);
  put_service_key(out, service.key);
  out.put_string(IPVS_SVC_ATTR_SCHED_NAME, service.scheduler.view());
  if (!service.persistence_engine.empty())
    out.put_string(IPVS_SVC_ATTR_PE_NAME, service.persistence_engine.view());
  const ip_vs_flags flags{service.flags, ~std::uint32_t{0}};
  out.put_bytes(IPVS_SVC_ATTR_FLAGS, bytes_of(flags));
  out.put_u32(IPVS_SVC_ATTR_TIMEOUT, service.timeout);
  put_netmask(out, service);
}

void put_service_name(MessageWriter& out, const VirtualServiceKey& key) {
  const auto nest = out.nest(IPVS_CMD_ATTR_SERVICE);
  put_service_key(out, key);
}

void put_server_key(MessageWriter& out, const RealServerKey& key) {
  out.put_u16(IPVS_DEST_ATTR_ADDR_FAMILY, to_af(key.address.family()));
  out.put_bytes(IPVS_DEST_ATTR_ADDR, to_union(key.address));
  out.put_be16(IPVS_DEST_ATTR_PORT, key.port);
}

void put_server(MessageWriter& out, const RealServer& server) {
  const auto nest = out.nest(IPVS_CMD_ATTR_DEST);
  put_server_key(out, server.key);
  out.put_u32(IPVS_DEST_ATTR_FWD_METHOD, static_cast<std::uint32_t>(server.method));
  out.put_u32(IPVS_DEST_ATTR_WEIGHT, server.weight);
  out.put_u8(IPVS_DEST_ATTR_TUN_TYPE, server.tunnel_type);
  out.put_be16(IPVS_DEST_ATTR_TUN_PORT, server.tunnel_port);
  out.put_u16(IPVS_DEST_ATTR_TUN_FLAGS, server.tunnel_flags);
  out.put_u32(IPVS_DEST_ATTR_U_THRESH, server.upper_threshold);
  out.put_u32(IPVS_DEST_ATTR_L_THRESH, server.lower_threshold);
}

struct EncodeOp {
  std::uint16_t family;

  Bytes operator()(const AddService& op) const { return service(IPVS_CMD_NEW_SERVICE, op.service); }
  Bytes operator()(const EditService& op) const {
    return service(IPVS_CMD_SET_SERVICE, op.service);
  }
  Bytes operator()(const DeleteService& op) const {
    auto out = ipvs_request(family, IPVS_CMD_DEL_SERVICE);
    put_service_name(out, op.key);
    return std::move(out).take();
  }
  Bytes operator()(const AddServer& op) const {
    return server(IPVS_CMD_NEW_DEST, op.service, op.server);
  }
  Bytes operator()(const EditServer& op) const {
    return server(IPVS_CMD_SET_DEST, op.service, op.server);
  }
  Bytes operator()(const DeleteServer& op) const {
    auto out = ipvs_request(family, IPVS_CMD_DEL_DEST);
    put_service_name(out, op.service);
    {
      const auto nest = out.nest(IPVS_CMD_ATTR_DEST);
      put_server_key(out, op.server);
    }
    return std::move(out).take();
  }

 private:
  Bytes service(std::uint8_t command, const VirtualService& value) const {
    auto out = ipvs_request(family, command);
    put_service(out, value);
    return std::move(out).take();
  }
  Bytes server(std::uint8_t command, const VirtualServiceKey& key, const RealServer& value) const {
    auto out = ipvs_request(family, command);
    put_service_name(out, key);
    put_server(out, value);
    return std::move(out).take();
  }
};

// The attributes after genlmsghdr.
Result<AttrReader> read_command(ByteView payload,
                                std::span<const AttrRule> policy = kCommandPolicy) {
  if (payload.size() < kGenericHeaderSize) return malformed("an IPVS reply without its header");
  return AttrReader::parse(payload.subspan(kGenericHeaderSize), policy);
}

Result<AttrReader> read_nest(ByteView payload, std::uint16_t type,
                             std::span<const AttrRule> policy) {
  const auto command = read_command(payload);
  if (!command) return command.error();
  const auto nest = command->nested(type);
  if (!nest) return malformed(fmt::format("an IPVS reply without attribute {}", type));
  return AttrReader::parse(*nest, policy);
}

Result<VirtualServiceKey> read_service_key(const AttrReader& in) {
  const auto af = in.u16(IPVS_SVC_ATTR_AF);
  const auto family = af ? from_af(*af) : std::nullopt;
  if (!family) return malformed("a virtual service without an address family");
  if (const auto fwmark = in.u32(IPVS_SVC_ATTR_FWMARK); fwmark && *fwmark != 0)
    return VirtualServiceKey{.address = IpAddress::any(*family), .fwmark = *fwmark};
  const auto protocol = in.u16(IPVS_SVC_ATTR_PROTOCOL);
  const auto bytes = in.bytes(IPVS_SVC_ATTR_ADDR);
  const auto port = in.be16(IPVS_SVC_ATTR_PORT);
  const auto address = bytes ? from_union(*family, *bytes) : std::nullopt;
  if (!protocol || !address || !port)
    return malformed("a virtual service without protocol, address or port");
  for (const auto known : {Protocol::tcp, Protocol::udp, Protocol::sctp})
    if (*protocol == static_cast<std::uint16_t>(known))
      return VirtualServiceKey{.address = *address, .protocol = known, .port = *port};
  return unsupported(
      fmt::format("virtual service {} of protocol {}", to_string(*address, *port), *protocol));
}

Result<std::uint8_t> read_netmask(const AttrReader& in, Family family) {
  if (family == Family::ipv4) {
    const auto mask = in.be32(IPVS_SVC_ATTR_NETMASK);
    return static_cast<std::uint8_t>(mask ? std::countl_one(*mask) : 32);
  }
  const auto bits = in.u32(IPVS_SVC_ATTR_NETMASK).value_or(128);
  if (bits > 128) return malformed(fmt::format("a persistence prefix of {} bits", bits));
  return static_cast<std::uint8_t>(bits);
}

Result<VirtualService> read_service(const AttrReader& in) {
  auto key = read_service_key(in);
  if (!key) return key.error();
  const auto scheduler = in.string(IPVS_SVC_ATTR_SCHED_NAME);
  const auto flag_bytes = in.bytes(IPVS_SVC_ATTR_FLAGS);
  if (!scheduler || !flag_bytes)
    return malformed(fmt::format("virtual service {} without scheduler or flags", to_string(*key)));
  ip_vs_flags flags;
  std::memcpy(&flags, flag_bytes->data(), sizeof flags);
  const auto netmask = read_netmask(in, key->address.family());
  if (!netmask) return netmask.error();
  return VirtualService{
      .key = *key,
      .scheduler = *scheduler,
      .flags = flags.flags & ~std::uint32_t{IP_VS_SVC_F_HASHED},
      .timeout = in.u32(IPVS_SVC_ATTR_TIMEOUT).value_or(0),
      .netmask_bits = *netmask,
      .persistence_engine = in.string(IPVS_SVC_ATTR_PE_NAME).value_or(""),
  };
}

Result<ListedServer> read_server(const AttrReader& in, Family service_family) {
  const auto af = in.u16(IPVS_DEST_ATTR_ADDR_FAMILY);
  const auto family = af ? from_af(*af) : std::optional(service_family);
  const auto bytes = in.bytes(IPVS_DEST_ATTR_ADDR);
  const auto address = family && bytes ? from_union(*family, *bytes) : std::nullopt;
  const auto port = in.be16(IPVS_DEST_ATTR_PORT);
  const auto weight = in.u32(IPVS_DEST_ATTR_WEIGHT);
  const auto method = in.u32(IPVS_DEST_ATTR_FWD_METHOD);
  if (!address || !port || !weight || !method)
    return malformed("a real server without address, port, weight or method");
  const auto forward = *method & IP_VS_CONN_F_FWD_MASK;
  if (forward > static_cast<std::uint32_t>(ForwardMethod::route))
    return unsupported(
        fmt::format("real server {} with method {}", to_string(*address, *port), forward));
  return ListedServer{
      .server = {.key = {*address, *port},
                 .weight = *weight,
                 .method = static_cast<ForwardMethod>(forward),
                 .upper_threshold = in.u32(IPVS_DEST_ATTR_U_THRESH).value_or(0),
                 .lower_threshold = in.u32(IPVS_DEST_ATTR_L_THRESH).value_or(0),
                 .tunnel_type = in.u8(IPVS_DEST_ATTR_TUN_TYPE).value_or(0),
                 .tunnel_port = in.be16(IPVS_DEST_ATTR_TUN_PORT).value_or(0),
                 .tunnel_flags = in.u16(IPVS_DEST_ATTR_TUN_FLAGS).value_or(0)},
      .active_connections = in.u32(IPVS_DEST_ATTR_ACTIVE_CONNS).value_or(0),
      .inactive_connections = in.u32(IPVS_DEST_ATTR_INACT_CONNS).value_or(0),
      .persistent_connections = in.u32(IPVS_DEST_ATTR_PERSIST_CONNS).value_or(0),
  };
}

// Absent counters are zeroes.
Result<IpvsTraffic> read_traffic(const AttrReader& in, std::uint16_t type) {
  const auto nest = in.nested(type);
  if (!nest) return IpvsTraffic{};
  const auto counters = AttrReader::parse(*nest, kTrafficPolicy);
  if (!counters) return counters.error();
  const auto number = [&](std::uint16_t attribute) { return counters->u64(attribute).value_or(0); };
  return IpvsTraffic{.connections = number(IPVS_STATS_ATTR_CONNS),
                     .packets_in = number(IPVS_STATS_ATTR_INPKTS),
                     .packets_out = number(IPVS_STATS_ATTR_OUTPKTS),
                     .bytes_in = number(IPVS_STATS_ATTR_INBYTES),
                     .bytes_out = number(IPVS_STATS_ATTR_OUTBYTES),
                     .connection_rate = number(IPVS_STATS_ATTR_CPS),
                     .packet_rate_in = number(IPVS_STATS_ATTR_INPPS),
                     .packet_rate_out = number(IPVS_STATS_ATTR_OUTPPS),
                     .byte_rate_in = number(IPVS_STATS_ATTR_INBPS),
                     .byte_rate_out = number(IPVS_STATS_ATTR_OUTBPS)};
}

Result<IpvsTraffic> read_narrow_traffic(ByteView nest) {
  const auto counters = AttrReader::parse(nest, kNarrowTrafficPolicy);
  if (!counters) return counters.error();
  return IpvsTraffic{.connections = counters->u32(IPVS_STATS_ATTR_CONNS).value_or(0),
                     .packets_in = counters->u32(IPVS_STATS_ATTR_INPKTS).value_or(0),
                     .packets_out = counters->u32(IPVS_STATS_ATTR_OUTPKTS).value_or(0),
                     .bytes_in = counters->u64(IPVS_STATS_ATTR_INBYTES).value_or(0),
                     .bytes_out = counters->u64(IPVS_STATS_ATTR_OUTBYTES).value_or(0),
                     .narrow = true};
}

Result<IpvsTraffic> read_service_traffic(const AttrReader& in) {
  const auto narrow = in.nested(IPVS_SVC_ATTR_STATS);
  if (!in.nested(IPVS_SVC_ATTR_STATS64) && narrow) return read_narrow_traffic(*narrow);
  return read_traffic(in, IPVS_SVC_ATTR_STATS64);
}

}  // namespace

Bytes encode_ipvs_op(std::uint16_t family, const IpvsOp& op) {
  return std::visit(EncodeOp{family}, op);
}

Bytes encode_list_services(std::uint16_t family) {
  return ipvs_request(family, IPVS_CMD_GET_SERVICE).take();
}

Bytes encode_list_servers(std::uint16_t family, const VirtualServiceKey& key) {
  auto out = ipvs_request(family, IPVS_CMD_GET_DEST);
  put_service_name(out, key);
  return std::move(out).take();
}

Bytes encode_get_service(std::uint16_t family, const VirtualServiceKey& key) {
  auto out = ipvs_request(family, IPVS_CMD_GET_SERVICE);
  put_service_name(out, key);
  return std::move(out).take();
}

Bytes encode_get_timeouts(std::uint16_t family) {
  return ipvs_request(family, IPVS_CMD_GET_CONFIG).take();
}

Bytes encode_get_info(std::uint16_t family) {
  return ipvs_request(family, IPVS_CMD_GET_INFO).take();
}

Bytes encode_list_daemons(std::uint16_t family) {
  return ipvs_request(family, IPVS_CMD_GET_DAEMON).take();
}

Bytes encode_set_timeouts(std::uint16_t family, const IpvsTimeouts& timeouts) {
  auto out = ipvs_request(family, IPVS_CMD_SET_CONFIG);
  out.put_u32(IPVS_CMD_ATTR_TIMEOUT_TCP, timeouts.tcp);
  out.put_u32(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, timeouts.tcp_fin);
  out.put_u32(IPVS_CMD_ATTR_TIMEOUT_UDP, timeouts.udp);
  return std::move(out).take();
}

Result<VirtualService> decode_service(ByteView payload) {
  const auto in = read_nest(payload, IPVS_CMD_ATTR_SERVICE, kServicePolicy);
  if (!in) return in.error();
  return read_service(*in);
}

Result<ListedServer> decode_server(ByteView payload, Family service_family) {
  const auto in = read_nest(payload, IPVS_CMD_ATTR_DEST, kServerPolicy);
  if (!in) return in.error();
  return read_server(*in, service_family);
}

Result<ServiceReading> decode_service_reading(ByteView payload) {
  const auto in = read_nest(payload, IPVS_CMD_ATTR_SERVICE, kServicePolicy);
  if (!in) return in.error();
  auto service = read_service(*in);
  if (!service) return service.error();
  const auto traffic = read_service_traffic(*in);
  if (!traffic) return traffic.error();
  ServiceReading reading{.service = *service, .traffic = *traffic};
  if (reading.service.key.address.family() == Family::ipv4)
    if (const auto mask = in->be32(IPVS_SVC_ATTR_NETMASK);
        mask && std::countl_one(*mask) != std::popcount(*mask))
      reading.odd_netmask = *mask;
  return reading;
}

Result<IpvsTraffic> decode_traffic(ByteView payload, const VirtualServiceKey& asked) {
  const auto in = read_nest(payload, IPVS_CMD_ATTR_SERVICE, kServicePolicy);
  if (!in) return in.error();
  const auto service = read_service(*in);
  if (!service) return service.error();
  if (service->key != asked)
    return malformed(fmt::format("an answer about virtual service {}", to_string(service->key)));
  if (!in->nested(IPVS_SVC_ATTR_STATS64) && !in->nested(IPVS_SVC_ATTR_STATS))
    return malformed("a virtual service without counters");
  return read_service_traffic(*in);
}

Result<ServerReading> decode_server_reading(ByteView payload, Family service_family) {
  const auto in = read_nest(payload, IPVS_CMD_ATTR_DEST, kServerPolicy);
  if (!in) return in.error();
  const auto listed = read_server(*in, service_family);
  if (!listed) return listed.error();
  const auto traffic = read_traffic(*in, IPVS_DEST_ATTR_STATS64);
  if (!traffic) return traffic.error();
  return ServerReading{*listed, *traffic};
}

Result<IpvsInfo> decode_info(ByteView payload) {
  const auto in = read_command(payload, kInfoPolicy);
  if (!in) return in.error();
  return IpvsInfo{.version = in->u32(IPVS_INFO_ATTR_VERSION).value_or(0),
                  .connection_table_size = in->u32(IPVS_INFO_ATTR_CONN_TAB_SIZE).value_or(0)};
}

Result<SyncDaemon> decode_daemon(ByteView payload) {
  const auto in = read_nest(payload, IPVS_CMD_ATTR_DAEMON, kDaemonPolicy);
  if (!in) return in.error();
  const auto state = in->u32(IPVS_DAEMON_ATTR_STATE);
  const auto interface = in->string(IPVS_DAEMON_ATTR_MCAST_IFN);
  if (!state || !interface) return malformed("a sync daemon without state or interface");
  SyncDaemon daemon{.master = (*state & IP_VS_STATE_MASTER) != 0,
                    .interface = std::string(*interface),
                    .sync_id = in->u32(IPVS_DAEMON_ATTR_SYNC_ID).value_or(0),
                    .max_length = in->u16(IPVS_DAEMON_ATTR_SYNC_MAXLEN).value_or(0),
                    .port = in->u16(IPVS_DAEMON_ATTR_MCAST_PORT).value_or(0),
                    .ttl = in->u8(IPVS_DAEMON_ATTR_MCAST_TTL).value_or(0)};
  if (const auto v4 = in->bytes(IPVS_DAEMON_ATTR_MCAST_GROUP))
    daemon.group = IpAddress::from_bytes(Family::ipv4, *v4);
  if (const auto v6 = in->bytes(IPVS_DAEMON_ATTR_MCAST_GROUP6))
    daemon.group = IpAddress::from_bytes(Family::ipv6, *v6);
  return daemon;
}

Result<IpvsTimeouts> decode_timeouts(ByteView payload) {
  const auto in = read_command(payload);
  if (!in) return in.error();
  return IpvsTimeouts{.tcp = in->u32(IPVS_CMD_ATTR_TIMEOUT_TCP).value_or(0),
                      .tcp_fin = in->u32(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN).value_or(0),
                      .udp = in->u32(IPVS_CMD_ATTR_TIMEOUT_UDP).value_or(0)};
}

}  // namespace ipvsproxier::netlink
