#pragma once

// Reads the kernel into an ActualState. Sync thread only.

#include <vector>

#include "proxier/plan/actual_state.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct Reading {
  plan::ActualState state;  // parts that could not be read are absent
  std::vector<Failure> failures;
};

// Reads what concerns `desired`: all virtual services with their servers, the sets and tables of
// its families, and of `addresses` (all of this node's) those of our dummy links. Where the first
// of these is not ours to use (`dummy_usable` false) its addresses stay unknown.
Reading read_kernel(Kernel& kernel, const plan::DesiredState& desired,
                    const std::vector<netlink::InterfaceAddress>& addresses, bool dummy_usable);

// The part of the state that is our dummy links', out of the addresses of all links.
void read_dummy_addresses(const std::vector<netlink::InterfaceAddress>& addresses,
                          plan::ActualState& state);

}  // namespace ipvsproxier::sync
