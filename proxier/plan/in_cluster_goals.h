#pragma once

// By which of its own virtual services this node and its pods reach the external addresses and node
// ports of a Service of policy Local (in_cluster.h), and why not. With iptables each such address
// and port takes a rule, and every commit of the table writes all of them: a Service gets one
// sixteenth of PlannerOptions::most_in_cluster_rules at most, a namespace its share of them
// (namespace_share.h). Pure; any thread.

#include <cstddef>
#include <optional>
#include <vector>

#include "proxier/api/problem.h"
#include "proxier/model/service_port.h"
#include "proxier/plan/claims.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/service_plan.h"

namespace ipvsproxier::plan {

struct InClusterGoals {
  // The claims of the cluster IP, or of the address for clients within the cluster; nullopt: such
  // clients are not sent on. Empty: no port has one.
  std::vector<std::optional<Claim>> goals;
  std::size_t rules = 0;      // that the Service asks for, up to its limit
  bool untranslated = false;  // iptables of this kernel cannot send packets of a port on
  bool beyond_limit = false;  // the limit of one Service leaves ports out, the last ones

  // By index in spec.ports.
  std::optional<Claim> of_port(std::size_t index) const {
    return index < goals.size() ? goals[index] : std::nullopt;
  }
};

InClusterGoals in_cluster_goals(const std::vector<model::ServicePort>& ports, const Claims& claims,
                                const FamilyNode& node, const PlannerOptions& options);

// Why in-cluster clients do not reach all the ports so: one constant text for each reason.
void add_in_cluster_limits(const api::Service& service, const InClusterGoals& goals,
                           const FamilyNode& node, const PlannerOptions& options,
                           api::Problems& problems);

}  // namespace ipvsproxier::plan
