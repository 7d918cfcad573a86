#pragma once

// Listening TCP sockets, as /proc/net/tcp and tcp6 show them. Pure; any thread.

#include <cstdint>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::check {

struct TcpListener {
  netlink::IpAddress address;
  std::uint16_t port = 0;

  friend auto operator<=>(const TcpListener&, const TcpListener&) = default;
};

// Lines of other states, and of another form, are passed over (net/ipv4/tcp_ipv4.c,
// get_tcp4_sock).
std::vector<TcpListener> parse_tcp_table(std::string_view text);

// Whether a socket of the daemon at `wanted` could not be bound for `other`. A socket on all
// addresses, of either family, is in the way of every address.
bool is_in_the_way(const TcpListener& other, const TcpListener& wanted);

}  // namespace ipvsproxier::check
