#pragma once

// What the health server of a load-balancer Service (healthCheckNodePort) reports. Pure; any
// thread.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "proxier/model/cluster_state.h"

namespace ipvsproxier::plan {

struct ServiceHealth {
  std::uint16_t port = 0;  // healthCheckNodePort
  // Number of ready endpoint addresses on this node, for each family of the Service.
  std::map<netlink::Family, std::uint32_t> local_endpoints;
  // The addresses of the Service's load balancers, the first 16 of each family: each costs a
  // socket.
  std::set<netlink::IpAddress> load_balancers;

  friend bool operator==(const ServiceHealth&, const ServiceHealth&) = default;
};

// nullopt: the Service has no health server.
std::optional<ServiceHealth> service_health(const api::NamespacedName& name,
                                            const model::ClusterState& cluster,
                                            const std::vector<netlink::Family>& families,
                                            std::string_view node_name);

}  // namespace ipvsproxier::plan
