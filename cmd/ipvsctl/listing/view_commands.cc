// `ipvsctl addresses` and `ipvsctl connections`.

#include <vector>

#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/listing/address_listing.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/kernel_tables.h"

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

}  // namespace ipvsproxier::ctl
