#pragma once

// The dummy link's part of what the kernel holds; read_back.h reads the others. Sync thread only.

#include <vector>

#include "netlink/link_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::sync {

// The part of the state that is our dummy links', out of the addresses of all links.
void read_dummy_addresses(const std::vector<netlink::InterfaceAddress>& addresses,
                          plan::ActualState& state);

}  // namespace ipvsproxier::sync
