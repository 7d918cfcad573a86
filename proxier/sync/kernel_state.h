#pragma once

// Reads where VIPs are bound in the kernel; read_back.h reads the other tables. Sync thread only.

#include <vector>

#include "netlink/ip_address.h"
#include "netlink/links/link_table.h"
#include "netlink/links/link_types.h"
#include "netlink/result.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/differences.h"

namespace ipvsproxier::sync {

// Everything that makes an address local to this node.
struct BoundAddresses {
  std::vector<netlink::InterfaceAddress> addresses;  // on all links
  std::vector<netlink::IpAddress> local_routes;      // only ours
};

netlink::Result<BoundAddresses> list_bound(netlink::LinkTable& links);

// Stores the bindings on our dummy links and by our local routes in the state.
void take_bindings(const BoundAddresses& all, const plan::Differences& differences,
                   plan::ActualState& state);

}  // namespace ipvsproxier::sync
