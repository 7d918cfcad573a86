#pragma once

// The current state of a flow in IPVS and in connection tracking. Any thread.

#include <set>
#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet_walk.h"
#include "netlink/conntrack/conntrack_types.h"
#include "netlink/ipvs/ipvs_connections.h"

namespace ipvsproxier::ctl {

struct LiveFlows {
  // Connections from the flow's source, and from its port if the flow has one, to its destination,
  // or to the virtual service that rules send it to.
  // A connection from port 0 is a template: it binds a client to a server of a persistent service.
  std::vector<netlink::IpvsConnection> connections;
  // Those to localhost are tracked again behind the loop (ipset/rules/localhost_rules.h).
  std::vector<netlink::TrackedFlow> tracked;
  std::string unread;  // why `tracked` could not be read; "" if it was
};

// Whether a connection belongs to the flow, whose source must be known.
bool is_of(const netlink::IpvsConnection& connection, const Flow& flow);
bool is_of(const netlink::TrackedFlow& tracked, const Flow& flow);
// Whether it is at the virtual service, of a flow that connection tracking has from these sources.
bool is_at(const netlink::IpvsConnection& connection, const netlink::VirtualServiceKey& service,
           const std::set<netlink::FlowEnd>& sources);

// One line for each, below a title.
std::string live_text(const LiveFlows& live);

}  // namespace ipvsproxier::ctl
