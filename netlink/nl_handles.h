#pragma once

// Owners of libnl's handles. Included by sources of this room only.

#include <netlink/socket.h>

#include <memory>

namespace ipvsproxier::netlink {

template <auto Free>
struct HandleDeleter {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};

// Closes its descriptor with it.
using NlSocketHandle = std::unique_ptr<nl_sock, HandleDeleter<nl_socket_free>>;

}  // namespace ipvsproxier::netlink
