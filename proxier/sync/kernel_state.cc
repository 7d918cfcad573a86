#include "proxier/sync/kernel_state.h"

#include "proxier/plan/node_info.h"

namespace ipvsproxier::sync {

using netlink::Family;

void read_dummy_addresses(const std::vector<netlink::InterfaceAddress>& addresses,
                          plan::ActualState& state) {
  auto& bound = state.addresses.emplace();
  state.fixed_addresses.clear();
  for (const auto& [link, address, length] : addresses) {
    if (link != plan::kDummyLink) continue;
    bound.insert(address);
    const bool kernel_made = address.family() == Family::ipv6 && address.is_link_local();
    if (kernel_made || address.is_loopback() || length != netlink::address_bits(address.family()))
      state.fixed_addresses.insert(address);
  }
}

}  // namespace ipvsproxier::sync
