#pragma once

// A channel to the IPVS family of generic netlink, with the id that the kernel gave to it. Opening
// it makes the kernel load the ip_vs module where it may (net/netlink/genetlink.c asks for the
// family's module). Not thread-safe.

#include <cstdint>

#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

struct IpvsChannel {
  NlChannel channel;
  std::uint16_t family = 0;

  // `missing` with the module's name if this kernel has no IPVS.
  static Result<IpvsChannel> open(const NlOptions& options = {});
};

// The id that the family has now: another one each time that the module was loaded. Errors as
// open()'s.
Result<std::uint16_t> resolve_ipvs(NlChannel& channel);

}  // namespace ipvsproxier::netlink
