#pragma once

// Owners of libnl handles. Included only by sources of netlink/.

#include <netlink/socket.h>

#include <memory>

#include "netlink/handle_deleter.h"

namespace ipvsproxier::netlink {

// Closing the socket closes its file descriptor.
using NlSocketHandle = std::unique_ptr<nl_sock, HandleDeleter<nl_socket_free>>;

}  // namespace ipvsproxier::netlink
