#pragma once

// HostReader: what, beside rules and virtual services, decides where a packet goes in one network
// namespace: its links and addresses, its routes, its listening sockets. Reads only. One thread.
// Implementations: KernelHostReader (host_reader_kernel.h), and tests' own.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/link_records.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

struct RouteQuestion {
  IpAddress destination;
  std::optional<IpAddress> source;
  std::int32_t in_link = 0;  // where the packet comes in; 0: this host sends it
  std::uint32_t mark = 0;

  friend auto operator<=>(const RouteQuestion&, const RouteQuestion&) = default;
};

struct Route {
  bool local = false;  // to this host
  std::int32_t out_link = 0;
  std::optional<IpAddress> gateway;  // of the family of the destination
  // What this host would take as source, where the question names none.
  std::optional<IpAddress> source;

  friend auto operator<=>(const Route&, const Route&) = default;
};

// A socket that takes what comes from anybody: a listening TCP one, an unconnected UDP one.
struct Listener {
  Protocol protocol = Protocol::tcp;
  IpAddress address;  // of all its family's: the unspecified one
  std::uint16_t port = 0;
  bool both_families = false;  // an IPv6 one of all addresses that takes IPv4, too

  friend auto operator<=>(const Listener&, const Listener&) = default;
};

class HostReader {
 public:
  virtual ~HostReader() = default;

  virtual Result<std::vector<LinkRecord>> links() = 0;

  // Of both families, on all links; those of one link in the kernel's order of precedence.
  virtual Result<std::vector<AddressRecord>> addresses() = 0;

  // The lookup that the kernel makes for such a packet. An error whose sys_errno is ENETUNREACH or
  // EHOSTUNREACH (no route, or this host does not forward), EACCES (prohibited), EXDEV (the source
  // is not behind that link: rp_filter) or EINVAL (a source that cannot be, or a blackhole) is the
  // kernel's judgement of it.
  virtual Result<Route> route(const RouteQuestion& question) = 0;

  // TCP and UDP, of both families.
  virtual Result<std::vector<Listener>> listeners() = 0;
};

}  // namespace ipvsproxier::netlink
