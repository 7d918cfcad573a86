#include "cmd/ipvsctl/names/address_names.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

namespace {

// gethostbyaddr() instead of getnameinfo(), which removes the host's own domain.
std::optional<std::string> look_up_host(const netlink::IpAddress& address) {
  const auto bytes = address.bytes();
  const auto* entry = gethostbyaddr(bytes.data(), static_cast<socklen_t>(bytes.size()),
                                    address.family() == netlink::Family::ipv4 ? AF_INET : AF_INET6);
  if (entry == nullptr) return std::nullopt;
  return entry->h_name;
}

std::optional<std::string> look_up_service(std::uint16_t port, netlink::Protocol protocol) {
  const auto name = std::string(to_lower_string(protocol));
  const auto* entry = getservbyport(htons(port), name.c_str());
  if (entry == nullptr) return std::nullopt;
  return entry->s_name;
}

}  // namespace

std::optional<std::string> SystemNames::host(const netlink::IpAddress& address) {
  const auto [known, added] = hosts_.try_emplace(address);
  if (added) known->second = look_up_host(address);
  return known->second;
}

std::optional<std::string> SystemNames::service(std::uint16_t port, netlink::Protocol protocol) {
  const auto [known, added] = services_.try_emplace({port, protocol});
  if (added) known->second = look_up_service(port, protocol);
  return known->second;
}

std::string address_text(const netlink::IpAddress& address, std::uint16_t port,
                         std::optional<netlink::Protocol> protocol, AddressNames* names) {
  if (names == nullptr) return netlink::to_string(address, port);
  constexpr std::size_t kMostBytes = 59;
  const auto host = api::visible(names->host(address).value_or(address.to_string()));
  const auto service = protocol ? names->service(port, *protocol) : std::nullopt;
  auto text = address.family() == netlink::Family::ipv6 ? "[" + host + "]" : host;
  text += ":" + service.value_or(std::to_string(port));
  return std::string(api::head_of(text, kMostBytes));
}

}  // namespace ipvsproxier::ctl
