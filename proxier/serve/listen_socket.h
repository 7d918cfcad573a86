#pragma once

// Listening sockets: TCP as kube-proxy opens them, and those of the file system for root on this
// host. Any thread; does not block.

#include <cstdint>
#include <string>

#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::serve {

enum class ListenNetwork : std::uint8_t {
  tcp,         // by the address's family; a wildcard takes both families where the host has IPv6
  one_family,  // by the address's family alone, so that the other one may use the same port
};

struct ListenAddress {
  netlink::IpAddress address;
  std::uint16_t port = 0;  // 0: one that is free
  ListenNetwork network = ListenNetwork::tcp;

  friend auto operator<=>(const ListenAddress&, const ListenAddress&) = default;
};

std::string to_string(const ListenAddress& address);  // "0.0.0.0:10256", "[::1]:10249"

struct ListenSocket {
  netlink::UniqueFd fd;  // listening, does not block, closed by exec
  std::uint16_t port = 0;
};

netlink::Result<ListenSocket> open_listen_socket(const ListenAddress& address);

// A unix socket at `path` that only its owner may use (mode 0600); its folder is made if it is
// missing (0755). One that a process left there is replaced; `already`: a process listens there.
netlink::Result<ListenSocket> open_local_socket(const std::string& path);

}  // namespace ipvsproxier::serve
