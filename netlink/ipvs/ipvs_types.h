#pragma once

// Virtual services and real servers of IPVS, and the operations on them. Values; two entries with
// equal keys are the same entry in the kernel. Host byte order everywhere. Field meanings are those
// of <linux/ip_vs.h> and net/netfilter/ipvs/ip_vs_ctl.c (Linux 6.1).

#include <cstdint>
#include <string>
#include <variant>

#include "netlink/containers/short_name.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::netlink {

// A virtual service is identified by address, protocol and port, or by a firewall mark. A service
// of a mark (fwmark != 0) has the unspecified address of its family and port 0.
struct VirtualServiceKey {
  IpAddress address;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  std::uint32_t fwmark = 0;

  friend auto operator<=>(const VirtualServiceKey&, const VirtualServiceKey&) = default;
};

std::string to_string(const VirtualServiceKey& key);  // "10.0.0.1:80/TCP", "fwmark 7 (IPv4)"

// Flags of a virtual service (IP_VS_SVC_F_*). The kernel's internal "hashed" flag is never shown.
inline constexpr std::uint32_t kPersistent = 0x1;  // `timeout` holds the persistence timeout
inline constexpr std::uint32_t kOnePacket = 0x4;
inline constexpr std::uint32_t kSchedulerFlag1 = 0x8;   // sh-fallback, mh-fallback
inline constexpr std::uint32_t kSchedulerFlag2 = 0x10;  // sh-port, mh-port
inline constexpr std::uint32_t kSchedulerFlag3 = 0x20;

// The scheduler name "none": the service accepts no new connection (ip_vs_ctl.c,
// ip_vs_add_service). Giving such a service its first scheduler does not wait for readers
// (ip_vs_edit_service).
inline constexpr const char* kNoScheduler = "none";

struct VirtualService {
  VirtualServiceKey key;
  ShortName scheduler;             // "rr"
  std::uint32_t flags = 0;         // kPersistent | ...
  std::uint32_t timeout = 0;       // persistence timeout in seconds
  std::uint8_t netmask_bits = 32;  // persistence granularity: 32 or 128 means single clients
  ShortName persistence_engine;    // "" or "sip"

  friend auto operator<=>(const VirtualService&, const VirtualService&) = default;
};

struct RealServerKey {
  IpAddress address;
  std::uint16_t port = 0;

  friend auto operator<=>(const RealServerKey&, const RealServerKey&) = default;
};

std::string to_string(const RealServerKey& key);  // "10.0.0.1:80"

// IP_VS_CONN_F_*: values as in the kernel.
enum class ForwardMethod : std::uint8_t { masquerade = 0, local = 1, tunnel = 2, route = 3 };

struct RealServer {
  RealServerKey key;
  std::uint32_t weight = 1;  // 0: no new connections (draining)
  ForwardMethod method = ForwardMethod::masquerade;
  std::uint32_t upper_threshold = 0;
  std::uint32_t lower_threshold = 0;
  std::uint8_t tunnel_type = 0;  // IP_VS_CONN_F_TUNNEL_TYPE_*: 0 IPIP, 1 GUE, 2 GRE
  std::uint16_t tunnel_port = 0;
  std::uint16_t tunnel_flags = 0;

  friend auto operator<=>(const RealServer&, const RealServer&) = default;
};

// A real server of a listing, with the kernel's current connection counts.
struct ListedServer {
  RealServer server;
  std::uint32_t active_connections = 0;
  std::uint32_t inactive_connections = 0;
  std::uint32_t persistent_connections = 0;
};

struct AddService {
  VirtualService service;
  // Whether an existing virtual service is edited. If false it is refused: another program made it.
  bool adopts = false;
  friend auto operator<=>(const AddService&, const AddService&) = default;
};
struct EditService {
  VirtualService service;
  friend auto operator<=>(const EditService&, const EditService&) = default;
};
struct DeleteService {
  VirtualServiceKey key;
  friend auto operator<=>(const DeleteService&, const DeleteService&) = default;
};
struct AddServer {
  VirtualServiceKey service;
  RealServer server;
  friend auto operator<=>(const AddServer&, const AddServer&) = default;
};
struct EditServer {
  VirtualServiceKey service;
  RealServer server;
  friend auto operator<=>(const EditServer&, const EditServer&) = default;
};
struct DeleteServer {
  VirtualServiceKey service;
  RealServerKey server;
  friend auto operator<=>(const DeleteServer&, const DeleteServer&) = default;
};

using IpvsOp =
    std::variant<AddService, EditService, DeleteService, AddServer, EditServer, DeleteServer>;

// The virtual service that the operation is about.
const VirtualServiceKey& service_of(const IpvsOp& op);

std::string to_string(const IpvsOp& op);  // "add virtual service 10.0.0.1:80/TCP rr"

// Seconds; 0 in a request keeps the kernel's value.
struct IpvsTimeouts {
  std::uint32_t tcp = 0;
  std::uint32_t tcp_fin = 0;
  std::uint32_t udp = 0;

  friend auto operator<=>(const IpvsTimeouts&, const IpvsTimeouts&) = default;
};

}  // namespace ipvsproxier::netlink
