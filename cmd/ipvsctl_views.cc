#include "cmd/ipvsctl_views.h"

#include <vector>

#include "cmd/daemon_names.h"
#include "cmd/kernel_tables.h"
#include "proxier/inspect/address_listing.h"

namespace ipvsproxier::cmd {

namespace {

inspect::ClusterNames names_from(const std::string& socket) {
  if (socket.empty()) return {};
  return names_if_known(socket).value_or(inspect::ClusterNames());
}

}  // namespace

netlink::Status run_addresses(const AddressesOptions& options, const inspect::TextSink& sink) {
  const auto tables = open_loaded_tables();
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
  const auto rows = inspect::address_rows(*bound, *routes, services, names_from(options.socket));
  return sink(inspect::addresses_text(rows, options.format));
}

netlink::Status run_connections(const ConnectionsOptions& options, const inspect::TextSink& sink) {
  netlink::ConnectionFile connections("/proc/net/ip_vs_conn");
  return tell_connections(connections, options.style, names_from(options.socket), sink);
}

}  // namespace ipvsproxier::cmd
