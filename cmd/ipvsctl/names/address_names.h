#pragma once

// Writes addresses and ports as numbers or as names.

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/ip_address.h"

namespace ipvsproxier::ctl {

// Looks up names. One thread. Implementation: SystemNames (cmd/ipvsctl/names/system_names.h).
class AddressNames {
 public:
  virtual ~AddressNames() = default;

  // nullopt: no name.
  virtual std::optional<std::string> host(const netlink::IpAddress& address) = 0;
  virtual std::optional<std::string> service(std::uint16_t port, netlink::Protocol protocol) = 0;
};

// "10.0.0.1:80", "[fd00::1]:80", "web.example.org:http". Numbers without `names`; without a
// protocol the port is a number. At most 59 characters, which is ipvsadm's limit.
std::string address_text(const netlink::IpAddress& address, std::uint16_t port,
                         std::optional<netlink::Protocol> protocol, AddressNames* names);

}  // namespace ipvsproxier::ctl
