#pragma once

// Links, their addresses, and the operations on these. Values; any thread.

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::netlink {

// A link as the kernel lists it.
struct LinkRecord {
  std::int32_t index = 0;
  std::string name;
  std::string kind;         // "dummy"; "" if the kernel names no kind
  std::int32_t master = 0;  // index of the bridge or other master of this port; 0: none

  friend auto operator<=>(const LinkRecord&, const LinkRecord&) = default;
};

// An address of a link as the kernel lists it.
struct AddressRecord {
  std::int32_t link_index = 0;
  IpAddress address;
  std::uint8_t prefix_length = 0;
  bool global = true;      // scope is neither link nor host
  bool secondary = false;  // IPv4 only: not the first address of its subnet on its link

  friend auto operator<=>(const AddressRecord&, const AddressRecord&) = default;
};

// An address on a link: IFA_LOCAL if present, else IFA_ADDRESS, and the prefix length.
struct InterfaceAddress {
  std::string link;
  IpAddress address;
  std::uint8_t prefix_length = 0;
  bool on_dummy = false;  // the link is a dummy

  friend auto operator<=>(const InterfaceAddress&, const InterfaceAddress&) = default;
};

// The first and last address of the IPv4 network that the address makes, if it has further ones
// between. The kernel takes the last one for a broadcast address (fib_add_ifaddr() in
// net/ipv4/fib_frontend.c), before Linux 5.14 the first one as well. Empty for IPv6.
std::vector<IpAddress> network_ends(const InterfaceAddress& address);

// Links whose names differ only in the number at the end form a series: "kube-ipvs0", "kube-ipvs1",
// ...
inline constexpr std::uint16_t kSeriesLength = 1024;

// 7 for "kube-ipvs7" in the series "kube-ipvs". nullopt for another name, for a number from
// kSeriesLength on, and for a number with a leading zero.
std::optional<std::uint16_t> number_in_series(std::string_view link, std::string_view series);

// Adds or removes the host address (/32 or /128), or a local route to it.
struct AddressOp {
  bool add = true;
  IpAddress address;

  friend auto operator<=>(const AddressOp&, const AddressOp&) = default;
};

// Changes of links and addresses since the last question to a LinkMonitor (link_monitor.h), which
// knows the series of our links.
struct LinkEvents {
  bool link_lost = false;  // a link of ours was deleted
  // Addresses that were removed from our links, or whose local routes of ours were removed, by any
  // program.
  std::set<IpAddress> lost;
  bool others_changed = false;  // addresses of other links came or went
  bool overrun = false;         // notifications were lost: everything may have changed

  bool empty() const { return !link_lost && lost.empty() && !others_changed && !overrun; }
  void merge(LinkEvents later);

  friend bool operator==(const LinkEvents&, const LinkEvents&) = default;
};

std::string to_string(const AddressOp& op);         // "add address 10.0.0.1/32"
std::string local_route_text(const AddressOp& op);  // "add local route 10.0.0.1/32"

}  // namespace ipvsproxier::netlink
