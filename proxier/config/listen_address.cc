#include "proxier/config/listen_address.h"

#include "netlink/text.h"

namespace ipvsproxier::config {

using netlink::IpAddress;

std::optional<HostPort> split_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return std::nullopt;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  if (host.find_first_of("[]") != std::string_view::npos ||
      port.find_first_of("[]") != std::string_view::npos)
    return std::nullopt;
  return HostPort{.host = std::string(host), .port = std::string(port)};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto port = netlink::parse_number<std::uint16_t>(text);
  return port && *port != 0 ? port : std::nullopt;
}

std::optional<serve::ListenAddress> parse_listen_address(std::string_view text) {
  const auto parts = split_host_port(text);
  if (!parts) return std::nullopt;
  const auto address = IpAddress::parse(parts->host);
  const auto port = parse_port(parts->port);
  if (!address || !port) return std::nullopt;
  return serve::ListenAddress{.address = *address, .port = *port};
}

void add_port(std::string& address, std::uint16_t port) {
  if (const auto bare = IpAddress::parse(address)) address = to_string(*bare, port);
}

}  // namespace ipvsproxier::config
