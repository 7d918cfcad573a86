#pragma once

// Sockets for the test servers and clients: non-blocking, made in the network namespace of the
// calling thread, with deadlines. A port of 0 is any; timeouts are in milliseconds.

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::test {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const netlink::IpAddress& address, std::uint16_t port);

// "10.0.0.1 80"
std::string describe(const SocketAddress& address);

netlink::Result<netlink::UniqueFd> bound_socket(netlink::Protocol protocol,
                                                const netlink::IpAddress& address,
                                                std::uint16_t port);

// TCP and SCTP listen, UDP is bound.
netlink::Result<netlink::UniqueFd> server_socket(netlink::Protocol protocol,
                                                 const netlink::IpAddress& address,
                                                 std::uint16_t port);

// Bound to `source` and connected; an ICMP error or a reset is an error with its errno.
netlink::Result<netlink::UniqueFd> client_socket(netlink::Protocol protocol, SocketAddress source,
                                                 SocketAddress remote, int timeout_ms,
                                                 const std::string& where);

// Until one of the poll() events is there, or an error of the socket, or the time is over
// (`timeout`).
netlink::Status wait_for(int fd, short events, int timeout_ms, const std::string& where);

}  // namespace ipvsproxier::test
