#include "proxier/plan/in_cluster_goals.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::plan {

namespace {

using model::ServicePort;

std::size_t most_of_one_service(const PlannerOptions& options) {
  return options.most_in_cluster_rules / 16;
}

// Whether in-cluster clients shall reach the external addresses of the port by another one.
bool asks_for_goal(const ServicePort& port, const FamilyNode& node, const PlannerOptions& options) {
  return options.differences.in_cluster_clients && port.external_policy_local &&
         (!port.internal_policy_local || in_cluster_address(port, node.in_cluster));
}

Claim goal_of(const ServicePort& port, std::size_t index, const FamilyNode& node) {
  const auto own = in_cluster_address(port, node.in_cluster);
  return {{own.value_or(port.cluster_ip), port.name.protocol, port.port},
          own ? Facet::in_cluster : Facet::cluster_ip,
          static_cast<std::uint16_t>(index)};
}

// Node ports on localhost have their own way.
bool is_sent_on(Facet facet) {
  return facet != Facet::cluster_ip && facet != Facet::in_cluster && facet != Facet::localhost;
}

// The external addresses and node ports of each port that the Service has.
std::vector<std::size_t> count_sent_on(const std::vector<ServicePort>& ports, const Claims& claims,
                                       const FamilyNode& node, const PlannerOptions& options) {
  std::vector<std::size_t> counts(ports.size());
  for (const auto& claim : claims_of(ports, node, options))
    if (is_sent_on(claim.facet) && claims.holds(ports.front().name.service, claim))
      ++counts[claim.port];
  return counts;
}

}  // namespace

InClusterGoals in_cluster_goals(const std::vector<ServicePort>& ports, const Claims& claims,
                                const FamilyNode& node, const PlannerOptions& options) {
  InClusterGoals result;
  const auto asks = [&](const ServicePort& port) { return asks_for_goal(port, node, options); };
  if (std::ranges::none_of(ports, asks)) return result;
  result.goals.resize(ports.size());
  const auto& name = ports.front().name.service;
  const bool by_rules = options.packet_filter == ipset::PacketFilter::iptables;
  const auto sent_on =
      by_rules ? count_sent_on(ports, claims, node, options) : std::vector<std::size_t>();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto goal = goal_of(ports[i], i, node);
    if (!asks(ports[i]) || !claims.holds(name, goal)) continue;
    if (by_rules && sent_on[i] > 0) {
      if (node.untranslated.contains(ports[i].name.protocol)) {
        result.untranslated = true;
        continue;
      }
      // Ports behind one that is left out are left out too, as few as they may ask for.
      result.beyond_limit =
          result.beyond_limit || result.rules + sent_on[i] > most_of_one_service(options);
      if (result.beyond_limit) continue;
      result.rules += sent_on[i];
    }
    result.goals[i] = goal;
  }
  if (by_rules && node.beyond_share.contains(name)) result.goals.clear();
  return result;
}

void add_in_cluster_limits(const api::Service& service, const InClusterGoals& goals,
                           const FamilyNode& node, const PlannerOptions& options,
                           api::Problems& problems) {
  const auto tell = [&](std::string why) {
    problems.push_back({.severity = api::Severity::warning,
                        .origin = service.origin,
                        .object = "Service " + api::to_string(service.name),
                        .field = "spec.externalTrafficPolicy",
                        .message = std::move(why)});
  };
  if (goals.beyond_limit)
    tell(
        fmt::format("has more than {} of ports times external IPs, load-balancer IPs and addresses "
                    "of node ports: this node and its pods reach the endpoints of other nodes "
                    "only at its first ports",
                    most_of_one_service(options)));
  if (goals.rules > 0 && node.beyond_share.contains(service.name))
    tell(
        fmt::format("all such Services ask for more than {} rules of iptables, and this one is "
                    "beyond the share of its namespace: this node and its pods reach it as clients "
                    "outside do",
                    options.most_in_cluster_rules));
}

}  // namespace ipvsproxier::plan
