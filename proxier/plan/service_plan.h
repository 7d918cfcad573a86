#pragma once

// The desired state of one Service in one family. Pure; any thread.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "proxier/model/service_port.h"
#include "proxier/plan/claims.h"
#include "proxier/plan/in_cluster_address.h"
#include "proxier/plan/other_programs.h"
#include "proxier/plan/ownership.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

// The facts about this node in one family that the planning of a Service needs.
struct FamilyNode {
  netlink::Family family = netlink::Family::ipv4;
  std::string name;
  std::string zone;
  netlink::IpAddress ip;
  std::set<netlink::IpAddress> other_links;     // addresses on links that are not ours
  std::set<netlink::IpAddress> node_addresses;  // addresses that carry node ports
  std::set<netlink::IpAddress> lent_addresses;  // of them, those that are addresses of Services
  std::set<netlink::IpAddress> api_server;      // no Service's external addresses (api_server.h)
  bool node_ports_name_address = false;         // the set of node ports has their addresses
  bool localhost = false;                       // node ports are on localhost
  Foreign foreign;                              // what foreign virtual services have
  std::vector<LeftPorts> left;                  // to other programs
  InClusterRange in_cluster;
  std::optional<netlink::IpPrefix> pods;  // whose source the local detector recognizes
  std::set<std::string, std::less<>> absent_schedulers;  // that this kernel does not have
  // Services beyond the share of their namespace (namespace_share.h) of kernel memory for tables of
  // schedulers.
  std::set<api::NamespacedName> beyond_tables;

  friend bool operator==(const FamilyNode&, const FamilyNode&) = default;
};

// What the Service asks for and a foreign virtual service has, or the program of a link.
struct RefusedClaim {
  Claim claim;
  std::optional<netlink::VirtualServiceKey> foreign;
  std::string link;  // if there is no foreign one
};

// The parts of the desired state that exist because of one Service.
struct ServicePlan {
  std::map<netlink::VirtualServiceKey, PlannedService> services;
  SortedVector<SharedTraffic> shared;
  LocalLack local_lack;        // of this Service: 0 or 1 each
  bool meets_foreign = false;  // foreign virtual services have something that it asks for
  // Wishes of the Service that are not granted: one problem for each kind of wish.
  api::Problems not_granted;

  bool is_empty() const { return services.empty() && shared.empty() && local_lack == LocalLack{}; }
};

// The endpoints that a facet of the port may use: `local_only`: those on this node; `strict`: even
// if this node has none (EndpointChoice::of_facet).
struct FacetPolicy {
  bool local_only = false;
  bool strict = false;
};
// `in_cluster`: the port has one of in_cluster_goals().
FacetPolicy policy_of(const model::ServicePort& port, Facet facet, bool in_cluster,
                      const PlannerOptions& options);

// The addresses that the Service asks to bind, without those of foreign virtual services.
SortedVector<netlink::IpAddress> addresses_of(const std::vector<model::ServicePort>& ports,
                                              const FamilyNode& node);

// All claims of the Service, whichever Service wins them, without those that are refused.
std::vector<Claim> claims_of(const std::vector<model::ServicePort>& ports, const FamilyNode& node,
                             const PlannerOptions& options);
// Those that foreign virtual services refuse, and those that are left to other programs.
std::vector<RefusedClaim> refused_claims_of(const std::vector<model::ServicePort>& ports,
                                            const FamilyNode& node, const PlannerOptions& options);

// The endpoints of each port of the Service; `slices`: nullptr if it has none.
std::map<api::ServicePortName, std::vector<model::Endpoint>> endpoints_of(
    const api::NamespacedName& service, const model::SlicesByName* slices, const FamilyNode& node,
    const model::ServiceSettings& settings, const PlannerOptions& options);

// The plan of the Service, with the virtual services that it owns. `granted`: by
// granted_settings().
ServicePlan plan_service(const std::vector<model::ServicePort>& ports,
                         const model::ParsedSettings& granted, const model::SlicesByName* slices,
                         const Claims& claims, const FamilyNode& node,
                         const PlannerOptions& options);

}  // namespace ipvsproxier::plan
