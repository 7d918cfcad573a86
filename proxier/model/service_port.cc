#include "proxier/model/service_port.h"

#include <algorithm>

namespace ipvsproxier::model {

namespace {

using api::ServiceType;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

template <typename T>
std::vector<T> of_family(const std::vector<T>& all, Family family) {
  std::vector<T> result;
  const auto matches = [family](const T& item) { return item.family() == family; };
  std::copy_if(all.begin(), all.end(), std::back_inserter(result), matches);
  return result;
}

std::optional<IpAddress> cluster_ip_of(const api::Service& service, Family family) {
  for (std::size_t i = 0; i < service.cluster_ips.size(); ++i) {
    const IpAddress& ip = service.cluster_ips[i];
    if (ip.family() != family) continue;
    const auto& families = service.ip_families;
    if (families.empty() || (i < families.size() && families[i] == family)) return ip;
  }
  return std::nullopt;
}

// A range that covers everything lifts the restriction; the other ranges then do not matter.
std::vector<IpPrefix> effective_ranges(const api::Service& service, Family family) {
  auto ranges = of_family(service.source_ranges, family);
  if (std::any_of(ranges.begin(), ranges.end(), [](const auto& r) { return r.length == 0; }))
    return {};
  std::sort(ranges.begin(), ranges.end());
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  return ranges;
}

bool external_policy_applies(const api::Service& service) {
  return service.type == ServiceType::load_balancer || service.type == ServiceType::node_port ||
         (service.type == ServiceType::cluster_ip && !service.external_ips.empty());
}

// Source ranges are stored once for each load-balancer address. Leaving out ranges shuts some
// clients out; leaving out addresses shuts everybody out of them.
void cut_addresses(ServicePort& common) {
  const auto cut = [&](std::vector<IpAddress>& addresses, std::size_t most) {
    if (addresses.size() <= most) return;
    addresses.resize(most);
    common.is_cut = true;
  };
  cut(common.external_ips, kMostOfOneService);
  cut(common.load_balancer_ips,
      std::max<std::size_t>(
          kMostOfOneService / std::max<std::size_t>(common.source_ranges.size(), 1), 1));
}

// Ranges are copied even without a load-balancer address.
std::size_t most_ports(const ServicePort& common) {
  const auto balancers = std::max<std::size_t>(common.load_balancer_ips.size(), 1);
  const auto ranges = std::max<std::size_t>(common.source_ranges.size(), 1);
  const auto of_one_port = std::max(common.external_ips.size(), balancers * ranges);
  return std::max<std::size_t>(kMostOfOneService / of_one_port, 1);
}

}  // namespace

std::vector<ServicePort> service_ports(const api::Service& service, Family family,
                                       bool allow_external_ips, const ServiceSettings& settings) {
  if (service.headless || service.type == ServiceType::external_name) return {};
  const auto cluster_ip = cluster_ip_of(service, family);
  if (!cluster_ip) return {};

  ServicePort common;
  common.service = &service;
  common.cluster_ip = *cluster_ip;
  common.external_ips = of_family(service.external_ips, family);
  if (!settings.skips_load_balancer_ips)
    common.load_balancer_ips = of_family(service.load_balancer_ips, family);
  common.source_ranges = effective_ranges(service, family);
  common.affinity_seconds = service.affinity_seconds;
  common.external_policy_local =
      (service.external_policy_local && external_policy_applies(service)) || settings.local;
  common.internal_policy_local = service.internal_policy_local || settings.local;
  if (service.type == ServiceType::load_balancer && common.external_policy_local)
    common.health_check_node_port = service.health_check_node_port;
  const bool has_external_address =
      !common.load_balancer_ips.empty() || !common.external_ips.empty();
  if (!allow_external_ips) common.external_ips.clear();

  cut_addresses(common);
  const auto most = most_ports(common);
  common.is_cut = common.is_cut || service.ports.size() > most;
  std::vector<ServicePort> result;
  for (const auto& port : service.ports) {
    if (result.size() == most) break;
    ServicePort one = common;
    one.name = {service.name, port.name, port.protocol};
    one.port = port.port;
    one.node_port = port.node_port;
    one.externally_accessible = has_external_address || port.node_port != 0;
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace ipvsproxier::model
