#pragma once

// "IP:port", as the configuration names what a server listens on. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxier/serve/listen_socket.h"

namespace ipvsproxier::cmd {

struct HostPort {
  std::string host;
  std::string port;
};

// "host:port" or "[host]:port", where a host with colons needs its brackets.
std::optional<HostPort> split_host_port(std::string_view text);

// 1 to 65535 in decimal.
std::optional<std::uint16_t> parse_port(std::string_view text);

// Of a validated configuration; nullopt: "", which means that nothing listens.
std::optional<serve::ListenAddress> parse_listen_address(std::string_view text);

// Joins a bare IP address with the port; leaves anything else as it is.
void add_port(std::string& address, std::uint16_t port);

}  // namespace ipvsproxier::cmd
