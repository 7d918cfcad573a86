#pragma once

// Listen addresses "IP:port" of the configuration. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxier/serve/listen_socket.h"

namespace ipvsproxier::config {

struct HostPort {
  std::string host;
  std::string port;
};

// Splits "host:port" or "[host]:port"; a host with colons needs brackets.
std::optional<HostPort> split_host_port(std::string_view text);

// 1 to 65535 in decimal.
std::optional<std::uint16_t> parse_port(std::string_view text);

// From a validated configuration; nullopt: "", which means not to listen.
std::optional<serve::ListenAddress> parse_listen_address(std::string_view text);

// Appends the port to a bare IP address; leaves other texts unchanged.
void add_port(std::string& address, std::uint16_t port);

}  // namespace ipvsproxier::config
