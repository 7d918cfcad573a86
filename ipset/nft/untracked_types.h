#pragma once

// Ports whose packets rules keep from connection tracking (untracked_ports.h). A value; any thread.

#include <compare>
#include <cstdint>
#include <string>

#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

struct UntrackedPorts {
  netlink::IpAddress address;
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  std::string table;  // that has the rules, printable: "legacy IPv4 table raw"

  friend auto operator<=>(const UntrackedPorts&, const UntrackedPorts&) = default;
};

}  // namespace ipvsproxier::ipset
