#pragma once

// The addresses of the API server: those by which this node reaches it, and the endpoints of the
// Service default/kubernetes. No Service gets one of them as an external IP or load-balancer
// address: bound here, it would lead to the Service's endpoints or nowhere, and the daemon would
// never hear that the Service was deleted. Cluster IPs and node ports are as ever; claims.h keeps
// the cluster IP of the API server. Pure; any thread.

#include <cstddef>
#include <optional>
#include <set>

#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/model/cluster_state.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

// So many endpoints of a family count, those of the API server's own slice first: who writes slices
// in the namespace default cannot keep any number of addresses from Services.
inline constexpr std::size_t kMostApiServers = 64;

// default/kubernetes.
bool is_api_server(const api::NamespacedName& service);

// The endpoints of the family, whatever their state.
std::set<netlink::IpAddress> api_server_endpoints(const model::ClusterState& cluster,
                                                  netlink::Family family);

// The Services with an external address that is in one of these alone.
std::set<api::NamespacedName> services_between(const std::set<netlink::IpAddress>& before,
                                               const std::set<netlink::IpAddress>& now,
                                               const model::ClusterState& cluster);

// Why addresses of the Service are left out. nullopt: it has none of these.
std::optional<api::Problem> api_server_problem(const api::Service& service,
                                               const std::set<netlink::IpAddress>& addresses,
                                               const PlannerOptions& options);

}  // namespace ipvsproxier::plan
