#include "proxier/plan/service_report.h"

#include "proxier/plan/granted_settings.h"
#include "proxier/plan/in_cluster_goals.h"
#include "proxier/plan/wrr_steps.h"

namespace ipvsproxier::plan {

namespace {

// The weights that the endpoints have together.
void scale_weights(std::vector<EndpointReport>& endpoints) {
  const auto gets = [](const EndpointReport& one) {
    return one.use == EndpointUse::used || one.use == EndpointUse::last_resort;
  };
  std::vector<std::uint32_t> weights;
  for (const auto& one : endpoints)
    if (gets(one)) weights.push_back(one.weight.weight);
  limit_weights(weights, weights.size());
  std::size_t next = 0;
  for (auto& one : endpoints)
    if (gets(one)) one.weight.weight = weights[next++];
}

TrafficReport traffic_of(const model::ServicePort& port, Facet facet,
                         const std::vector<model::Endpoint>& endpoints, bool in_cluster,
                         const model::ServiceSettings& settings, const PlannerOptions& options) {
  const auto [local_only, strict] = policy_of(port, facet, in_cluster, options);
  const auto choice = choose_endpoints(port, endpoints);
  const bool outside_only =
      facet != Facet::cluster_ip && facet != Facet::in_cluster && local_only && strict;
  TrafficReport report{.local_only = local_only,
                       .by_local = choice.by_local(local_only, strict),
                       .outside_only = outside_only,
                       .drops = outside_only && choice.local.empty() && choice.any,
                       .endpoints = {}};
  const auto uses = judge_endpoints(endpoints, report.by_local);
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const auto weight = weight_of(endpoints[i], uses[i]);
    report.endpoints.push_back({endpoints[i], uses[i], weight, weight.weight});
  }
  if (has_wrr_walks(scheduler_of(settings, options), thresholds_of(settings, options).upper))
    scale_weights(report.endpoints);
  return report;
}

}  // namespace

std::vector<PortReport> report_service(const std::vector<model::ServicePort>& ports,
                                       const model::ServiceSettings& settings,
                                       const model::SlicesByName* slices, const Claims& claims,
                                       const FamilyNode& node, const ipset::RuleParameters& rules,
                                       const PlannerOptions& options) {
  std::vector<PortReport> reports;
  if (ports.empty()) return reports;
  const auto& service = ports.front().name.service;
  auto endpoints = endpoints_of(service, slices, node, settings, options);
  const auto goals = in_cluster_goals(ports, claims, node, options);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto& port = ports[i];
    const auto& own = endpoints[port.name];
    const auto goal = goals.empty() ? std::nullopt : goals[i];
    const bool in_cluster = goal.has_value();
    auto& report = reports.emplace_back();
    report.port = port;
    report.internal = traffic_of(port, Facet::cluster_ip, own, in_cluster, settings, options);
    if (port.externally_accessible)
      report.external = traffic_of(port, Facet::node_port, own, in_cluster, settings, options);
    if (goal && goal->facet == Facet::in_cluster)
      report.in_cluster = traffic_of(port, goal->facet, own, in_cluster, settings, options);
    report.reach = client_reach(port, choose_endpoints(port, own), goal, rules, options);
  }
  for (const auto& claim : claims_of(ports, node, options)) {
    const auto* holder = claims.owner_of(claim.key);
    reports[claim.port].facets.push_back({.claim = claim,
                                          .held = claims.holds(service, claim),
                                          .holder = holder == nullptr ? service : *holder});
  }
  for (const auto& [claim, foreign, link] : refused_claims_of(ports, node, options))
    reports[claim.port].facets.push_back({.claim = claim, .foreign = foreign, .link = link});
  return reports;
}

}  // namespace ipvsproxier::plan
