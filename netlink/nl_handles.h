#pragma once

// Owners of libnl's handles. Included by sources of this room only.

#include <netlink/socket.h>

#include <memory>

#include "netlink/handle_deleter.h"

namespace ipvsproxier::netlink {

// Closes its descriptor with it.
using NlSocketHandle = std::unique_ptr<nl_sock, HandleDeleter<nl_socket_free>>;

}  // namespace ipvsproxier::netlink
