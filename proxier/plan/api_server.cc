#include "proxier/plan/api_server.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ipvsproxier::plan {

using netlink::IpAddress;

namespace {

constexpr std::string_view kName = "kubernetes";  // also of the slice that the API server keeps

const IpAddress* first_of(const std::vector<IpAddress>& list,
                          const std::set<IpAddress>& addresses) {
  const auto found = std::ranges::find_if(
      list, [&](const IpAddress& address) { return addresses.contains(address); });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

bool is_api_server(const api::NamespacedName& service) {
  return service.ns == "default" && service.name == kName;
}

std::set<IpAddress> api_server_endpoints(const model::ClusterState& cluster,
                                         netlink::Family family) {
  std::set<IpAddress> addresses;
  const auto slices = cluster.slices.find({"default", std::string(kName)});
  if (slices == cluster.slices.end()) return addresses;
  for (const bool own : {true, false})
    for (const auto& slice : slices->second) {
      if (slice.family != family || (slice.name.name == kName) != own) continue;
      for (const auto& endpoint : slice.endpoints) {
        if (addresses.size() == kMostApiServers) return addresses;
        if (!endpoint.address.is_loopback()) addresses.insert(endpoint.address);
      }
    }
  return addresses;
}

std::set<api::NamespacedName> services_between(const std::set<IpAddress>& before,
                                               const std::set<IpAddress>& now,
                                               const model::ClusterState& cluster) {
  std::set<IpAddress> differing;
  std::ranges::set_symmetric_difference(before, now, std::inserter(differing, differing.end()));
  std::set<api::NamespacedName> names;
  for (const auto& [name, service] : cluster.services)
    if (first_of(service.external_ips, differing) != nullptr ||
        first_of(service.load_balancer_ips, differing) != nullptr)
      names.insert(name);
  return names;
}

std::optional<api::Problem> api_server_problem(const api::Service& service,
                                               const std::set<IpAddress>& addresses,
                                               const PlannerOptions& options) {
  if (addresses.empty()) return std::nullopt;
  std::string_view field = "spec.externalIPs";
  const auto* address =
      options.allow_external_ips ? first_of(service.external_ips, addresses) : nullptr;
  if (address == nullptr) {
    field = "status.loadBalancer.ingress";
    address = first_of(service.load_balancer_ips, addresses);
  }
  if (address == nullptr) return std::nullopt;
  return api::Problem{
      .severity = api::Severity::error,
      .origin = service.origin,
      .object = "Service " + api::to_string(service.name),
      .field = std::string(field),
      .message = fmt::format("{} is an address of the API server, which this node could not reach "
                             "any more: it is not proxied; all else of the Service is",
                             address->to_string())};
}

}  // namespace ipvsproxier::plan
