#pragma once

// A netlink channel to the IPVS family of generic netlink, with the family's id. Opening it makes
// the kernel load the ip_vs module if it can (net/netlink/genetlink.c asks for the family's
// module). Not thread-safe.

#include <cstdint>

#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

struct IpvsChannel {
  NlChannel channel;
  std::uint16_t family = 0;

  // `missing` with the module's name if this kernel has no IPVS.
  static Result<IpvsChannel> open(const NlOptions& options = {});
};

// The family's current id: it changes each time the module is loaded. Errors are those of
// IpvsChannel::open().
Result<std::uint16_t> resolve_ipvs(NlChannel& channel);

}  // namespace ipvsproxier::netlink
