#pragma once

// HandleDeleter: lets std::unique_ptr own a handle of a C library.

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
