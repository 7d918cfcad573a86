#pragma once

// The datagrams of a socket to which the kernel sends notifications. One thread.

#include <cstdint>

#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

enum class Received : std::uint8_t {
  datagram,
  nothing,  // none waits
  foreign,  // one that another process sent: it counts for nothing
  lost,     // notifications were dropped; after that the kernel drops more until none waits
  failed,
};

// Takes the next datagram into the buffer, if one waits; `datagram` is then that part of it.
Received receive_notification(int fd, Bytes& buffer, ByteView& datagram);

}  // namespace ipvsproxier::netlink
