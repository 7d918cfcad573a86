#include "proxier/sync/kernel_state.h"

#include "proxier/plan/bindings.h"

namespace ipvsproxier::sync {

using netlink::Family;

netlink::Result<BoundAddresses> list_bound(netlink::LinkTable& links) {
  auto addresses = links.list_addresses();
  if (!addresses) return addresses.error();
  auto routes = links.list_local_routes();
  if (!routes) return routes.error();
  return BoundAddresses{*std::move(addresses), *std::move(routes)};
}

void take_bindings(const BoundAddresses& all, const plan::Differences& differences,
                   plan::ActualState& state) {
  auto& bound = state.addresses.emplace();
  state.fixed_addresses.clear();
  for (const auto& route : all.local_routes) bound.insert({route, plan::kLocalTable});
  for (const auto& [link, address, length, on_dummy] : all.addresses) {
    const auto number = plan::dummy_number(link);
    // The name kube-ipvs0 suffices, without a look at the link type.
    if (!number || (!on_dummy && *number != 0)) continue;
    bound.insert({address, *number});
    const bool special =
        address.is_loopback() || (address.family() == Family::ipv6 && address.is_link_local());
    if (length != netlink::address_bits(address.family()) ||
        (special && !differences.unbind_special))
      state.fixed_addresses.insert(address);
  }
}

}  // namespace ipvsproxier::sync
