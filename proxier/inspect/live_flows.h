#pragma once

// What there is of a flow now, as IPVS and connection tracking have it. Any thread.

#include <string>
#include <vector>

#include "netlink/conntrack_types.h"
#include "netlink/ipvs_connections.h"
#include "proxier/inspect/packet_walk.h"

namespace ipvsproxier::inspect {

struct LiveFlows {
  // Of the flow's source, and of its port if it names one, to its destination. One from port 0 is a
  // template: it says with which server a persistent service keeps the client.
  std::vector<netlink::IpvsConnection> connections;
  std::vector<netlink::TrackedFlow> tracked;
  std::string unread;  // why there is nothing in `tracked`: it could not be read
};

// Whether such a connection is of the flow, whose source is known.
bool is_of(const netlink::IpvsConnection& connection, const Flow& flow);
bool is_of(const netlink::TrackedFlow& tracked, const Flow& flow);

// One line each, below a title.
std::string live_text(const LiveFlows& live);

}  // namespace ipvsproxier::inspect
