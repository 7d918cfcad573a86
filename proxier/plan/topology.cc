#include "proxier/plan/topology.h"

#include <algorithm>

namespace ipvsproxier::plan {

namespace {

using model::Endpoint;
using model::Hint;
using Endpoints = std::vector<Endpoint>;

enum class TopologyMode { none, zone, node };

bool is_ready(const Endpoint& endpoint) {
  return endpoint.ready;
}

bool is_serving_terminating(const Endpoint& endpoint) {
  return endpoint.serving && endpoint.terminating;
}

// Hints of one kind count only if every ready endpoint has them and one of them names us.
bool hints_apply(const Endpoints& endpoints, Hint Endpoint::*hint) {
  bool any_names_us = false;
  for (const auto& endpoint : endpoints) {
    if (!is_ready(endpoint)) continue;
    if (endpoint.*hint == Hint::none) return false;
    any_names_us = any_names_us || endpoint.*hint == Hint::ours;
  }
  return any_names_us;
}

TopologyMode topology_mode(const Endpoints& endpoints) {
  if (hints_apply(endpoints, &Endpoint::node_hint)) return TopologyMode::node;
  if (hints_apply(endpoints, &Endpoint::zone_hint)) return TopologyMode::zone;
  return TopologyMode::none;
}

template <typename Predicate>
std::vector<const Endpoint*> filter(const Endpoints& endpoints, Predicate wanted) {
  std::vector<const Endpoint*> result;
  for (const auto& endpoint : endpoints)
    if (wanted(endpoint)) result.push_back(&endpoint);
  return result;
}

std::vector<const Endpoint*> cluster_endpoints(const Endpoints& endpoints) {
  const auto mode = topology_mode(endpoints);
  auto chosen = filter(endpoints, [&](const Endpoint& endpoint) {
    if (!is_ready(endpoint)) return false;
    if (mode == TopologyMode::node) return endpoint.node_hint == Hint::ours;
    if (mode == TopologyMode::zone) return endpoint.zone_hint == Hint::ours;
    return true;
  });
  return chosen.empty() ? filter(endpoints, is_serving_terminating) : chosen;
}

std::vector<const Endpoint*> local_endpoints(const Endpoints& endpoints) {
  auto chosen = filter(endpoints, [](const Endpoint& e) { return e.local && is_ready(e); });
  if (!chosen.empty()) return chosen;
  return filter(endpoints, [](const Endpoint& e) { return e.local && is_serving_terminating(e); });
}

}  // namespace

EndpointChoice choose_endpoints(const model::ServicePort& port, const Endpoints& endpoints) {
  EndpointChoice choice;
  if (port.uses_cluster()) choice.cluster = cluster_endpoints(endpoints);
  if (port.uses_local()) choice.local = local_endpoints(endpoints);
  choice.any = std::any_of(endpoints.begin(), endpoints.end(), [](const Endpoint& endpoint) {
    return is_ready(endpoint) || is_serving_terminating(endpoint);
  });
  return choice;
}

}  // namespace ipvsproxier::plan
