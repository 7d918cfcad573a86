#pragma once

// Tracked flows as values. Usable on any thread.

#include <compare>
#include <cstdint>
#include <string>

#include "netlink/ip_address.h"

namespace ipvsproxier::netlink {

struct FlowEnd {
  IpAddress address;
  std::uint16_t port = 0;

  friend auto operator<=>(const FlowEnd&, const FlowEnd&) = default;
};

// A tracked flow of TCP, UDP or SCTP. For a flow through a virtual service, `destination` is the
// virtual service and `server` the real server.
struct Flow {
  FlowEnd source;       // original direction
  FlowEnd destination;  // original direction
  FlowEnd server;       // source of the reply direction
  // The kernel's id: tells a flow from a later one with the same addresses and ports.
  std::uint32_t id = 0;
  Protocol protocol = Protocol::udp;
  bool answered = false;  // packets of both directions were seen
  // A flowtable forwards it, without another destination (IPS_OFFLOAD without IPS_DST_NAT).
  bool untranslated_offload = false;

  friend auto operator<=>(const Flow&, const Flow&) = default;
};

// A tracked flow of TCP, UDP or SCTP, with its state; for display.
struct TrackedFlow {
  Protocol protocol = Protocol::tcp;
  FlowEnd source;       // original direction
  FlowEnd destination;  // original direction
  FlowEnd server;       // source of the reply direction
  // Destination of the reply direction: the source address that the server sees.
  FlowEnd seen;
  std::string state;          // "ESTABLISHED"; "" where the protocol has none
  bool answered = false;      // packets of both directions were seen
  std::uint32_t expires = 0;  // seconds

  friend auto operator<=>(const TrackedFlow&, const TrackedFlow&) = default;
};

// "UDP flow 10.0.0.7:4000 -> 10.96.0.10:53"
inline std::string to_string(const Flow& flow) {
  return std::string(to_string(flow.protocol)) + " flow " +
         to_string(flow.source.address, flow.source.port) + " -> " +
         to_string(flow.destination.address, flow.destination.port);
}

}  // namespace ipvsproxier::netlink
