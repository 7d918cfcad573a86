#pragma once

// The decisions for one Service in one family, for display; computed by the functions that plan.
// Pure; any thread.

#include <cstdint>
#include <optional>
#include <vector>

#include "proxier/plan/client_reach.h"
#include "proxier/plan/service_plan.h"
#include "proxier/plan/topology.h"

namespace ipvsproxier::plan {

struct FacetReport {
  Claim claim;
  bool held = false;           // if false, another Service or port owns the virtual service
  api::NamespacedName holder;  // the owner
  std::optional<netlink::VirtualServiceKey> foreign;  // for which it is refused
  std::string link;                                   // to whose program it is left
};

struct EndpointReport {
  model::Endpoint endpoint;
  EndpointUse use = EndpointUse::used;
  ServerWeight weight;
  std::uint32_t asked_weight = 1;  // if it differs, wrr_steps.h has scaled it down
};

// The endpoints for one kind of traffic.
struct TrafficReport {
  bool local_only = false;  // the traffic policy is Local
  bool by_local = false;    // the policy is applied: it is strict, or this node has an endpoint
  // Of clients outside the cluster: this node and its pods are sent to the cluster IP, or to the
  // address for them.
  bool outside_only = false;
  bool drops = false;  // their packets are dropped: all endpoints are on other nodes
  std::vector<EndpointReport> endpoints;
};

struct PortReport {
  model::ServicePort port;
  std::vector<FacetReport> facets;
  TrafficReport internal;                 // to the cluster IP
  std::optional<TrafficReport> external;  // to all other addresses, if the port may have any
  // To the address for clients within the cluster, if there is one.
  std::optional<TrafficReport> in_cluster;
  std::vector<ClientReach> reach;
};

std::vector<PortReport> report_service(const std::vector<model::ServicePort>& ports,
                                       const model::ServiceSettings& settings,
                                       const model::SlicesByName* slices, const Claims& claims,
                                       const FamilyNode& node, const ipset::RuleParameters& rules,
                                       const PlannerOptions& options);

}  // namespace ipvsproxier::plan
