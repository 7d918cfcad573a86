#pragma once

// What a message to the kernel says.

#include <string>

#include "netlink/nl_codec.h"
#include "test/support/hex.h"

namespace ipvsproxier::test {

// What follows nlmsghdr.
inline netlink::ByteView payload(const netlink::Bytes& message) {
  return netlink::ByteView(message).subspan(netlink::kMessageHeaderSize);
}
inline std::string sent(const netlink::Bytes& message) {
  return to_hex(payload(message));
}

}  // namespace ipvsproxier::test
