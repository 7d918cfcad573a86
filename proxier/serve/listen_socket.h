#pragma once

// Listening sockets: TCP in kube-proxy's ways, and unix sockets for root on this host. Any thread;
// does not block.

#include <cstdint>
#include <string>

#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::serve {

enum class ListenNetwork : std::uint8_t {
  tcp,         // by the address's family; a wildcard takes both families if the host has IPv6
  one_family,  // only the address's family, so that the other one can use the same port
};

struct ListenAddress {
  netlink::IpAddress address;
  std::uint16_t port = 0;  // 0: any free port
  ListenNetwork network = ListenNetwork::tcp;
  bool may_be_absent = false;  // this node may not have the address yet

  friend auto operator<=>(const ListenAddress&, const ListenAddress&) = default;
};

std::string to_string(const ListenAddress& address);  // "0.0.0.0:10256", "[::1]:10249"

struct ListenSocket {
  netlink::UniqueFd fd;  // listening, non-blocking, close-on-exec
  std::uint16_t port = 0;
};

netlink::Result<ListenSocket> open_listen_socket(const ListenAddress& address);

// A unix socket at `path` that only its owner may use (mode 0600). Creates a missing folder (0755)
// and replaces the socket of an ended process; fails with `already` if a process listens there.
netlink::Result<ListenSocket> open_local_socket(const std::string& path);

}  // namespace ipvsproxier::serve
