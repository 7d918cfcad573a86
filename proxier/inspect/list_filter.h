#pragma once

// What of the table is shown. Values; pure, any thread.

#include <cstdint>
#include <optional>

#include "netlink/ipvs_connections.h"
#include "netlink/ipvs_readings.h"

namespace ipvsproxier::inspect {

class ClusterNames;

// That of the connection's ends; nullopt: no virtual service has its protocol.
std::optional<netlink::VirtualServiceKey> service_of(const netlink::IpvsConnection& connection);

struct Backend {
  netlink::IpAddress address;
  std::optional<std::uint16_t> port;

  // "10.1.0.2", "10.1.0.2:80", "fd00::2", "[fd00::2]:80".
  static std::optional<Backend> parse(std::string_view text);
  friend bool operator==(const Backend&, const Backend&) = default;
};

// All that is set must hold. Firewall-mark services have no address, port and protocol.
struct ListFilter {
  std::optional<netlink::IpPrefix> vip;
  std::optional<std::uint16_t> port;
  std::optional<netlink::Protocol> protocol;
  std::optional<Backend> backend;
  const ClusterNames* named = nullptr;  // services that have a name there
  bool draining = false;                // servers of weight 0
  bool empty = false;                   // services without a real server

  bool matches(const netlink::VirtualServiceKey& service) const;
  bool matches(const netlink::RealServer& server) const;
  // All but `draining` and `empty`, which connections do not have.
  bool matches(const netlink::IpvsConnection& connection) const;

  // Services are shown for the sake of their servers that match.
  bool selects_servers() const { return backend.has_value() || draining; }

  friend bool operator==(const ListFilter&, const ListFilter&) = default;
};

}  // namespace ipvsproxier::inspect
