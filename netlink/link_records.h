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
  std::string kind;         // "dummy"; "" where the kernel names none
  std::int32_t master = 0;  // the bridge or the like that this link is a port of; 0: none

  friend auto operator<=>(const LinkRecord&, const LinkRecord&) = default;
};

struct AddressRecord {
  std::int32_t link_index = 0;
  IpAddress address;
  std::uint8_t prefix_length = 0;
  bool global = true;      // not of the scope of a link or of this host alone
  bool secondary = false;  // of IPv4: another one of its subnet comes before it on its link

  friend auto operator<=>(const AddressRecord&, const AddressRecord&) = default;
};

}  // namespace ipvsproxier::netlink
