#pragma once

// HostReader: reads the state of one network namespace that decides where a packet goes, apart from
// packet filter rules and virtual services: links, addresses, routes and listening sockets. Changes
// nothing. One thread. Implementations: KernelHostReader (host_reader_kernel.h) and fakes in tests.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/links/link_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

struct RouteQuestion {
  IpAddress destination;
  std::optional<IpAddress> source;
  std::int32_t in_link = 0;  // index of the incoming link; 0: the packet is sent by this host
  std::uint32_t mark = 0;

  friend auto operator<=>(const RouteQuestion&, const RouteQuestion&) = default;
};

struct Route {
  bool local = false;  // the destination is an address of this host
  std::int32_t out_link = 0;
  std::optional<IpAddress> gateway;  // same family as the destination
  // The source address that this host would choose; only for a question without a source.
  std::optional<IpAddress> source;

  friend auto operator<=>(const Route&, const Route&) = default;
};

// A socket that accepts packets from any peer: listening (TCP) or unconnected (UDP).
struct Listener {
  Protocol protocol = Protocol::tcp;
  IpAddress address;  // the unspecified address: the socket is bound to all addresses
  std::uint16_t port = 0;
  bool both_families = false;  // an IPv6 socket on all addresses that takes IPv4 as well

  friend auto operator<=>(const Listener&, const Listener&) = default;
};

class HostReader {
 public:
  virtual ~HostReader() = default;

  virtual Result<std::vector<LinkRecord>> links() = 0;

  // Addresses of both families on all links; within a link in the kernel's order of precedence.
  virtual Result<std::vector<AddressRecord>> addresses() = 0;

  // The kernel's route lookup for such a packet. These errno values are results of the lookup, not
  // failures: ENETUNREACH or EHOSTUNREACH (no route, or this host does not forward), EACCES
  // (prohibited), EXDEV (rp_filter: the source is not behind that link) and EINVAL (an impossible
  // source, or a blackhole).
  virtual Result<Route> route(const RouteQuestion& question) = 0;

  // Sockets of TCP and UDP, of both families.
  virtual Result<std::vector<Listener>> listeners() = 0;
};

}  // namespace ipvsproxier::netlink
