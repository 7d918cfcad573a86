#include "cmd/ipvsctl/names/system_names.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

namespace ipvsproxier::ctl {

namespace {

// gethostbyaddr() instead of getnameinfo(), which removes the host's own domain.
std::optional<std::string> find_host(const netlink::IpAddress& address) {
  const auto bytes = address.bytes();
  const auto* entry = gethostbyaddr(bytes.data(), static_cast<socklen_t>(bytes.size()),
                                    address.family() == netlink::Family::ipv4 ? AF_INET : AF_INET6);
  if (entry == nullptr) return std::nullopt;
  return entry->h_name;
}

std::optional<std::string> find_service(std::uint16_t port, netlink::Protocol protocol) {
  const auto name = std::string(to_lower_string(protocol));
  const auto* entry = getservbyport(htons(port), name.c_str());
  if (entry == nullptr) return std::nullopt;
  return entry->s_name;
}

}  // namespace

std::optional<std::string> SystemNames::host(const netlink::IpAddress& address) {
  const auto [known, added] = hosts_.try_emplace(address);
  if (added) known->second = find_host(address);
  return known->second;
}

std::optional<std::string> SystemNames::service(std::uint16_t port, netlink::Protocol protocol) {
  const auto [known, added] = services_.try_emplace({port, protocol});
  if (added) known->second = find_service(port, protocol);
  return known->second;
}

}  // namespace ipvsproxier::ctl
