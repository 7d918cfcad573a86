#pragma once

// What the health servers of load balancers are to tell of a Service (healthCheckNodePort). Pure;
// any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "proxier/model/cluster_state.h"

namespace ipvsproxier::plan {

struct ServiceHealth {
  std::uint16_t port = 0;  // healthCheckNodePort
  // Of each family that the Service has: how many addresses are ready endpoints on this node.
  std::map<netlink::Family, std::uint32_t> local_endpoints;

  friend bool operator==(const ServiceHealth&, const ServiceHealth&) = default;
};

// nullopt: the Service has no health server.
std::optional<ServiceHealth> service_health(const api::NamespacedName& name,
                                            const model::ClusterState& cluster,
                                            const std::vector<netlink::Family>& families,
                                            std::string_view node_name);

}  // namespace ipvsproxier::plan
