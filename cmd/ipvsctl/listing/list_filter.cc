#include "cmd/ipvsctl/listing/list_filter.h"

#include "cmd/ipvsctl/names/cluster_names.h"
#include "netlink/text.h"

namespace ipvsproxier::ctl {

using netlink::IpAddress;

namespace {

bool matches_backend(const Backend& backend, const IpAddress& address, std::uint16_t port) {
  return backend.address == address && backend.port.value_or(port) == port;
}

}  // namespace

std::optional<netlink::VirtualServiceKey> service_of(const netlink::IpvsConnection& connection) {
  const auto protocol = netlink::parse_protocol(connection.protocol);
  if (!protocol) return std::nullopt;
  return netlink::VirtualServiceKey{.address = connection.virtual_address,
                                    .protocol = *protocol,
                                    .port = connection.virtual_port};
}

std::optional<Backend> Backend::parse(std::string_view text) {
  // First try an address without a port: an IPv6 address has colons.
  if (const auto address = IpAddress::parse(text)) return Backend{*address, std::nullopt};
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  auto host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  const auto port = netlink::parse_number<std::uint16_t>(text.substr(colon + 1));
  if (!address || !port) return std::nullopt;
  if (address->family() == netlink::Family::ipv6 && !bracketed) return std::nullopt;
  return Backend{*address, port};
}

bool ListFilter::matches(const netlink::VirtualServiceKey& service) const {
  if (named != nullptr && !named->of(service)) return false;
  if (service.fwmark != 0) return !vip && !port && !protocol;
  return (!vip || vip->contains(service.address)) && port.value_or(service.port) == service.port &&
         protocol.value_or(service.protocol) == service.protocol;
}

bool ListFilter::matches(const netlink::RealServer& server) const {
  return (!backend || matches_backend(*backend, server.key.address, server.key.port)) &&
         (!draining || server.weight == 0);
}

bool ListFilter::matches(const netlink::IpvsConnection& connection) const {
  const auto service = service_of(connection);
  if (named != nullptr && (!service || !named->of(*service))) return false;
  return (!vip || vip->contains(connection.virtual_address)) &&
         port.value_or(connection.virtual_port) == connection.virtual_port &&
         (!protocol || (service && service->protocol == protocol)) &&
         (!backend || matches_backend(*backend, connection.server_address, connection.server_port));
}

}  // namespace ipvsproxier::ctl
