#pragma once

// By which of its own virtual services this node and its pods reach the external addresses and node
// ports of a Service of policy Local (in_cluster.h). Pure; any thread.

#include <cstddef>
#include <optional>
#include <vector>

#include "proxier/model/service_port.h"
#include "proxier/plan/claims.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/service_plan.h"

namespace ipvsproxier::plan {

// One entry for each port, by its index in spec.ports: the claim of the cluster IP, or of the
// address for clients within the cluster; nullopt: such clients are not sent on. The list is empty
// if no port has one.
using InClusterGoals = std::vector<std::optional<Claim>>;

InClusterGoals in_cluster_goals(const std::vector<model::ServicePort>& ports, const Claims& claims,
                                const FamilyNode& node, const PlannerOptions& options);

}  // namespace ipvsproxier::plan
