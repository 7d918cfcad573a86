#include "cmd/ipvsctl/listing/address_listing.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "proxier/plan/bindings.h"

namespace ipvsproxier::ctl {

using netlink::IpAddress;

namespace {

void write_address(api::DocumentWriter& out, const AddressRow& row) {
  out.member("address", row.address.to_string());
  if (!row.bound_to.empty()) out.member("boundTo", row.bound_to);
  out.member("family", to_string(row.address.family()));
  out.member("services", row.services);
  if (!row.wrong.empty()) out.member("wrong", row.wrong);
}

}  // namespace

std::vector<AddressRow> address_rows(std::span<const netlink::InterfaceAddress> bound,
                                     std::span<const IpAddress> routes,
                                     std::span<const netlink::VirtualService> services,
                                     const ClusterNames& names) {
  std::map<IpAddress, std::set<std::string>> served;
  for (const auto& service : services) {
    if (service.key.fwmark != 0) continue;
    auto& owners = served[service.key.address];
    if (const auto name = names.of(service.key))
      owners.insert(fmt::format("{}/{}", name->ns, name->service));
  }
  std::vector<AddressRow> rows;
  std::set<IpAddress> somewhere(routes.begin(), routes.end());
  const auto add_bound = [&](const IpAddress& address, std::string place) {
    const auto owners = served.find(address);
    const bool used = owners != served.end();
    rows.push_back({.address = address,
                    .bound_to = std::move(place),
                    .services = used ? owners->second : std::set<std::string>(),
                    .wrong = used ? "" : "no virtual service has it"});
  };
  for (const auto& one : bound) {
    somewhere.insert(one.address);
    if (one.on_dummy && plan::dummy_number(one.link)) add_bound(one.address, one.link);
  }
  for (const auto& address : routes) add_bound(address, plan::place_name(plan::kLocalTable));
  for (const auto& [address, owners] : served)
    if (!somewhere.contains(address))
      rows.push_back({.address = address, .services = owners, .wrong = "bound nowhere"});
  std::ranges::sort(rows, [](const AddressRow& left, const AddressRow& right) {
    return std::tie(left.address, left.bound_to) < std::tie(right.address, right.bound_to);
  });
  return rows;
}

std::string addresses_text(std::span<const AddressRow> rows, SetFormat format) {
  if (format != SetFormat::text) {
    return document_text(format, [&](api::DocumentWriter& out) {
      out.object([&] {
        out.list("addresses", rows,
                 [&](const AddressRow& row) { out.object([&] { write_address(out, row); }); });
      });
    });
  }
  std::size_t address_width = 15;
  std::size_t link_width = 10;
  for (const auto& row : rows) {
    address_width = std::max(address_width, row.address.to_string().size());
    link_width = std::max(link_width, row.bound_to.size());
  }
  auto text = fmt::format("{:{}} {:6} {:{}} {}\n", "Address", address_width, "Family", "Bound to",
                          link_width, "Services");
  for (const auto& row : rows)
    fmt::format_to(std::back_inserter(text), "{:{}} {:6} {:{}} {}{}\n", row.address.to_string(),
                   address_width, to_string(row.address.family()),
                   row.bound_to.empty() ? "-" : row.bound_to, link_width, owners_text(row.services),
                   row.wrong.empty() ? "" : ": " + row.wrong);
  return text;
}

}  // namespace ipvsproxier::ctl
