#include "cmd/ipvsctl/names/address_names.h"

#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

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
