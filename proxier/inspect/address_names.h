#pragma once

// How addresses and ports are written: as numbers, or with names that somebody knows.

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/ip_address.h"

namespace ipvsproxier::inspect {

// Knows names. One thread. Implementation: SystemNames (cmd/system_names.h).
class AddressNames {
 public:
  virtual ~AddressNames() = default;

  // nullopt: it has no name.
  virtual std::optional<std::string> host(const netlink::IpAddress& address) = 0;
  virtual std::optional<std::string> service(std::uint16_t port, netlink::Protocol protocol) = 0;
};

// "10.0.0.1:80", "[fd00::1]:80", "web.example.org:http". Without `names` it is numbers; without a
// protocol the port is one. At most 59 characters: ipvsadm has no room for more.
std::string address_text(const netlink::IpAddress& address, std::uint16_t port,
                         std::optional<netlink::Protocol> protocol, AddressNames* names);

}  // namespace ipvsproxier::inspect
