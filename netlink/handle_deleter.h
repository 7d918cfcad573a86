#pragma once

// HandleDeleter: makes a std::unique_ptr the owner of a C library's handle.

namespace ipvsproxier::netlink {

// std::unique_ptr<nl_sock, HandleDeleter<nl_socket_free>>
template <auto Free>
struct HandleDeleter {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};

}  // namespace ipvsproxier::netlink
