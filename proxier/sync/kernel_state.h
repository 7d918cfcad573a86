#pragma once

// Where VIPs are bound, of what the kernel holds; read_back.h reads the rest. Sync thread only.

#include <vector>

#include "netlink/ip_address.h"
#include "netlink/link_table.h"
#include "netlink/link_types.h"
#include "netlink/result.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/differences.h"

namespace ipvsproxier::sync {

// What makes addresses this node's.
struct BoundAddresses {
  std::vector<netlink::InterfaceAddress> addresses;  // on all links
  std::vector<netlink::IpAddress> local_routes;      // of ours
};

netlink::Result<BoundAddresses> list_bound(netlink::LinkTable& links);

// The part of the state that is our dummy links' and our local routes'.
void take_bindings(const BoundAddresses& all, const plan::Differences& differences,
                   plan::ActualState& state);

}  // namespace ipvsproxier::sync
