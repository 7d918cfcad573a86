#include "proxier/plan/service_health.h"

#include <algorithm>
#include <cstddef>

#include "proxier/model/service_port.h"

namespace ipvsproxier::plan {

namespace {

constexpr std::size_t kMostBalancers = 16;

std::uint32_t count_local(const model::SlicesByName& slices, netlink::Family family,
                          std::string_view node_name) {
  std::set<netlink::IpAddress> addresses;
  for (const auto& slice : slices) {
    if (slice.family != family || slice.ports.empty()) continue;
    for (const auto& endpoint : slice.endpoints)
      if (endpoint.ready && endpoint.node_name == node_name) addresses.insert(endpoint.address);
  }
  return static_cast<std::uint32_t>(addresses.size());
}

}  // namespace

std::optional<ServiceHealth> service_health(const api::NamespacedName& name,
                                            const model::ClusterState& cluster,
                                            const std::vector<netlink::Family>& families,
                                            std::string_view node_name) {
  const auto service = cluster.services.find(name);
  if (service == cluster.services.end() || service->second.health_check_node_port == 0)
    return std::nullopt;
  const auto slices = cluster.slices.find(name);
  ServiceHealth health;
  for (const auto family : families) {
    const auto ports = model::service_ports(service->second, family, true);
    if (ports.empty() || ports.front().health_check_node_port == 0) continue;
    health.port = ports.front().health_check_node_port;
    health.local_endpoints[family] =
        slices == cluster.slices.end() ? 0 : count_local(slices->second, family, node_name);
    const auto& ips = ports.front().load_balancer_ips;
    const auto end =
        ips.begin() + static_cast<std::ptrdiff_t>(std::min(ips.size(), kMostBalancers));
    health.load_balancers.insert(ips.begin(), end);
  }
  if (health.port == 0) return std::nullopt;
  return health;
}

}  // namespace ipvsproxier::plan
