#pragma once

// Filters of the table and connection listings. Values; pure, any thread.

#include <cstdint>
#include <optional>

#include "netlink/ipvs/ipvs_connections.h"
#include "netlink/ipvs/ipvs_readings.h"

namespace ipvsproxier::ctl {

class ClusterNames;

// The virtual service of a connection; nullopt: no virtual service has its protocol.
std::optional<netlink::VirtualServiceKey> service_of(const netlink::IpvsConnection& connection);

struct Backend {
  netlink::IpAddress address;
  std::optional<std::uint16_t> port;

  // "10.1.0.2", "10.1.0.2:80", "fd00::2", "[fd00::2]:80".
  static std::optional<Backend> parse(std::string_view text);
  friend bool operator==(const Backend&, const Backend&) = default;
};

// All set conditions must hold. Firewall-mark services have no address, port and protocol.
struct ListFilter {
  std::optional<netlink::IpPrefix> vip;
  std::optional<std::uint16_t> port;
  std::optional<netlink::Protocol> protocol;
  std::optional<Backend> backend;
  const ClusterNames* named = nullptr;  // only services that have a name there
  bool draining = false;                // only servers of weight 0
  bool empty = false;                   // only services without real servers

  bool matches(const netlink::VirtualServiceKey& service) const;
  bool matches(const netlink::RealServer& server) const;
  // Without `draining` and `empty`, which do not apply to connections.
  bool matches(const netlink::IpvsConnection& connection) const;

  // Whether services are shown only because of matching servers.
  bool selects_servers() const { return backend.has_value() || draining; }

  friend bool operator==(const ListFilter&, const ListFilter&) = default;
};

}  // namespace ipvsproxier::ctl
