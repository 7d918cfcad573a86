#pragma once

// Links and their addresses as the kernel lists them. Values; any thread.

#include <compare>
#include <cstdint>
#include <string>

#include "netlink/ip_address.h"

namespace ipvsproxier::netlink {

struct LinkRecord {
  std::int32_t index = 0;
  std::string name;
  std::string kind;         // "dummy"; "" if the kernel names no kind
  std::int32_t master = 0;  // index of the bridge or other master of this port; 0: none

  friend auto operator<=>(const LinkRecord&, const LinkRecord&) = default;
};

struct AddressRecord {
  std::int32_t link_index = 0;
  IpAddress address;
  std::uint8_t prefix_length = 0;
  bool global = true;      // scope is neither link nor host
  bool secondary = false;  // IPv4 only: not the first address of its subnet on its link

  friend auto operator<=>(const AddressRecord&, const AddressRecord&) = default;
};

}  // namespace ipvsproxier::netlink
