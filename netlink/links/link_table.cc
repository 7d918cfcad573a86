#include "netlink/links/link_table.h"

#include <fmt/format.h>

#include "netlink/text.h"

namespace ipvsproxier::netlink {

std::optional<std::uint16_t> number_in_series(std::string_view link, std::string_view series) {
  if (!link.starts_with(series)) return std::nullopt;
  link.remove_prefix(series.size());
  const auto number = parse_number<std::uint16_t>(link);
  const bool leads_with_zero = link.size() > 1 && link.front() == '0';
  return number && !leads_with_zero && *number < kSeriesLength ? number : std::nullopt;
}

std::vector<IpAddress> network_ends(const InterfaceAddress& address) {
  if (address.address.family() != Family::ipv4 || address.prefix_length > 30) return {};
  const auto network = IpPrefix::of(address.address, address.prefix_length);
  std::uint32_t first = 0;
  for (const auto byte : network.address.bytes()) first = first << 8U | byte;
  return {IpAddress::v4(first), IpAddress::v4(first | 0xffffffffU >> address.prefix_length)};
}

void LinkEvents::merge(LinkEvents later) {
  link_lost = link_lost || later.link_lost;
  lost.merge(later.lost);
  others_changed = others_changed || later.others_changed;
  overrun = overrun || later.overrun;
}

namespace {

std::string text_of(const AddressOp& op, std::string_view what) {
  return fmt::format("{} {} {}/{}", op.add ? "add" : "delete", what, op.address.to_string(),
                     address_bits(op.address.family()));
}

}  // namespace

std::string to_string(const AddressOp& op) {
  return text_of(op, "address");
}

std::string local_route_text(const AddressOp& op) {
  return text_of(op, "local route");
}

}  // namespace ipvsproxier::netlink
