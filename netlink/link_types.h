#pragma once

// Addresses on links as values, and what can be done to them. Usable on any thread.

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"

namespace ipvsproxier::netlink {

// An address on a link: the local address (IFA_LOCAL where there is one) and its prefix length.
struct InterfaceAddress {
  std::string link;
  IpAddress address;
  std::uint8_t prefix_length = 0;
  bool on_dummy = false;  // the link is a dummy

  friend auto operator<=>(const InterfaceAddress&, const InterfaceAddress&) = default;
};

// Links whose names differ by a number at their end are a series: "kube-ipvs0", "kube-ipvs1", ...
inline constexpr std::uint16_t kSeriesLength = 1024;

// 7 of "kube-ipvs7" in series "kube-ipvs". nullopt for what is not of the series, as a number from
// kSeriesLength on, or one with a zero before it.
std::optional<std::uint16_t> number_in_series(std::string_view link, std::string_view series);

// Adds or removes address/32 or /128, or a local route to it.
struct AddressOp {
  bool add = true;
  IpAddress address;

  friend auto operator<=>(const AddressOp&, const AddressOp&) = default;
};

// What happened to links and addresses since one last asked, as a LinkMonitor (link_monitor.h) saw
// it with a series of links that are ours in view.
struct LinkEvents {
  bool link_lost = false;  // a link of ours was deleted
  // Addresses taken off links of ours, or whose local routes of ours were removed, by whomever.
  std::set<IpAddress> lost;
  bool others_changed = false;  // addresses of other links came or went
  bool overrun = false;         // notifications were lost: anything may have happened

  bool empty() const { return !link_lost && lost.empty() && !others_changed && !overrun; }
  void merge(LinkEvents later);

  friend bool operator==(const LinkEvents&, const LinkEvents&) = default;
};

std::string to_string(const AddressOp& op);         // "add address 10.0.0.1/32"
std::string local_route_text(const AddressOp& op);  // "add local route 10.0.0.1/32"

}  // namespace ipvsproxier::netlink
