#pragma once

// What was decided for one Service in one family, for people: by the functions that decide. Pure;
// any thread.

#include <optional>
#include <vector>

#include "proxier/plan/service_plan.h"
#include "proxier/plan/topology.h"

namespace ipvsproxier::plan {

struct FacetReport {
  Claim claim;
  bool held = false;           // else another Service, or port, has the virtual service
  api::NamespacedName holder;  // that has it
};

struct EndpointReport {
  model::Endpoint endpoint;
  EndpointUse use = EndpointUse::used;
};

// Endpoints, those of which one kind of traffic gets to some.
struct TrafficReport {
  bool local_only = false;  // the traffic policy is Local
  bool by_local = false;    // and is kept: not where there is no endpoint and it is not strict
  std::vector<EndpointReport> endpoints;
};

struct PortReport {
  model::ServicePort port;
  std::vector<FacetReport> facets;
  TrafficReport internal;                 // to the cluster IP
  std::optional<TrafficReport> external;  // to the others, if there may be any
};

std::vector<PortReport> report_service(const std::vector<model::ServicePort>& ports,
                                       const model::SlicesByName* slices, const Claims& claims,
                                       const FamilyNode& node, const PlannerOptions& options);

}  // namespace ipvsproxier::plan
