// `ipvsctl addresses`, `ipvsctl connections` and `ipvsctl sets`.

#include <vector>

#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/listing/address_listing.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/names/element_owners.h"
#include "cmd/kernel_tables.h"
#include "ipset/sets/set_libipset.h"

namespace ipvsproxier::ctl {

netlink::Status run_addresses(const AddressesOptions& options, const TextSink& sink) {
  const auto tables = cmd::open_loaded_tables();
  const auto bound = tables.links->list_addresses();
  if (!bound) return bound.error();
  const auto routes = tables.links->list_local_routes();
  if (!routes) return routes.error();
  std::vector<netlink::VirtualService> services;
  if (tables.ipvs) {
    auto listed = tables.ipvs->list_services();
    if (!listed) return listed.error();
    services = *std::move(listed);
  }
  const auto names = names_for_view(options.names, options.socket, {});
  if (!names) return names.error();
  const ClusterNames none;
  const auto rows = address_rows(*bound, *routes, services, *names ? **names : none);
  return sink(addresses_text(rows, options.format));
}

netlink::Status run_connections(const ConnectionsOptions& options, const TextSink& sink) {
  const auto names = names_for_view(options.names, options.socket, options.services);
  if (!names) return names.error();
  auto style = options.style;
  if (options.services.of_some()) style.filter.named = &**names;
  const ClusterNames none;
  netlink::ConnectionFile connections("/proc/net/ip_vs_conn");
  return tell_connections(connections, style, options.names && *names ? **names : none, sink);
}

netlink::Status run_sets(const SetsOptions& options, const TextSink& sink) {
  if (auto status = cmd::require_iptables(); !status) return status;
  const auto table = ipset::LibipsetTable::open();
  if (!table) return table.error();
  if (options.name.empty()) {
    const auto sets = list_sets(**table);
    if (!sets) return sets.error();
    return sink(sets_text(*sets, options.format));
  }
  const auto set = (*table)->list(options.name);
  if (!set) return set.error();
  if (!*set)
    return netlink::Error{netlink::ErrorKind::missing, 0,
                          "there is no set of the name " + options.name};
  // Names are read after the elements: an element of a new Service then has its owner.
  const auto key = our_set(options.name);
  const auto names = key && options.names ? names_if_known(options.socket) : std::nullopt;
  if (!names) return sink(elements_text(**set, options.format, nullptr));
  const ElementOwners owners(*key, *names);
  return sink(elements_text(**set, options.format, &owners));
}

}  // namespace ipvsproxier::ctl
