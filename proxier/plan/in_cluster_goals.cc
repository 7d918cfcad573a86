#include "proxier/plan/in_cluster_goals.h"

#include <algorithm>

namespace ipvsproxier::plan {

namespace {

using model::ServicePort;

// Whether in-cluster clients shall reach the external addresses of the port by another one.
bool asks_for_goal(const ServicePort& port, const FamilyNode& node, const PlannerOptions& options) {
  return options.sends_clients_on() && port.external_policy_local &&
         (!port.internal_policy_local || in_cluster_address(port, node.in_cluster));
}

Claim goal_of(const ServicePort& port, std::size_t index, const FamilyNode& node) {
  const auto own = in_cluster_address(port, node.in_cluster);
  return {{own.value_or(port.cluster_ip), port.name.protocol, port.port},
          own ? Facet::in_cluster : Facet::cluster_ip,
          static_cast<std::uint16_t>(index)};
}

}  // namespace

InClusterGoals in_cluster_goals(const std::vector<ServicePort>& ports, const Claims& claims,
                                const FamilyNode& node, const PlannerOptions& options) {
  const auto asks = [&](const ServicePort& port) { return asks_for_goal(port, node, options); };
  if (std::ranges::none_of(ports, asks)) return {};
  InClusterGoals goals(ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto goal = goal_of(ports[i], i, node);
    if (asks(ports[i]) && claims.holds(ports.front().name.service, goal)) goals[i] = goal;
  }
  return goals;
}

}  // namespace ipvsproxier::plan
