#include "netlink/links/link_table.h"

#include <charconv>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

std::optional<std::uint16_t> number_in_series(std::string_view link, std::string_view series) {
  if (!link.starts_with(series)) return std::nullopt;
  link.remove_prefix(series.size());
  std::uint16_t number = 0;
  const auto [end, failure] = std::from_chars(link.data(), link.data() + link.size(), number);
  const bool leads_with_zero = link.size() > 1 && link.front() == '0';
  if (failure != std::errc{} || end != link.data() + link.size() || leads_with_zero ||
      number >= kSeriesLength)
    return std::nullopt;
  return number;
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
