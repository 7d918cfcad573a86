#include "proxier/sync/kernel_state.h"

#include "proxier/plan/bindings.h"

namespace ipvsproxier::sync {

using netlink::Family;

void read_dummy_addresses(const std::vector<netlink::InterfaceAddress>& addresses,
                          plan::ActualState& state) {
  auto& bound = state.addresses.emplace();
  state.fixed_addresses.clear();
  for (const auto& [link, address, length, on_dummy] : addresses) {
    const auto number = plan::dummy_number(link);
    if (!number || (!on_dummy && *number != 0)) continue;  // the first is known to be one
    bound.insert({address, *number});
    const bool kernel_made = address.family() == Family::ipv6 && address.is_link_local();
    if (kernel_made || address.is_loopback() || length != netlink::address_bits(address.family()))
      state.fixed_addresses.insert(address);
  }
}

}  // namespace ipvsproxier::sync
