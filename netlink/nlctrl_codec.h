#pragma once

// The controller of generic netlink (nlctrl), which gives the ids of families. Pure; any thread.
// Source: net/netlink/genetlink.c (6.1).

#include <cstdint>
#include <string_view>

#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Asks for the id of the family with this name.
Bytes encode_get_family(std::string_view name);
// Decodes the reply; `payload` starts with genlmsghdr. `malformed` if it has no id.
Result<std::uint16_t> decode_family_id(ByteView payload);

}  // namespace ipvsproxier::netlink
