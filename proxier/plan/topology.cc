#include "proxier/plan/topology.h"

#include <algorithm>

namespace ipvsproxier::plan {

namespace {

using model::Endpoint;
using Endpoints = std::vector<Endpoint>;

enum class TopologyMode { none, zone, node };

bool is_ready(const Endpoint& endpoint) {
  return endpoint.source->ready;
}

bool is_serving_terminating(const Endpoint& endpoint) {
  return endpoint.source->serving && endpoint.source->terminating;
}

bool has(const std::vector<std::string>& hints, std::string_view name) {
  return std::find(hints.begin(), hints.end(), name) != hints.end();
}

// Hints of one kind count only if every ready endpoint has them and one of them names us.
template <typename HintsOf>
bool hints_apply(const Endpoints& endpoints, std::string_view name, HintsOf hints_of) {
  bool any_names_us = false;
  for (const auto& endpoint : endpoints) {
    if (!is_ready(endpoint)) continue;
    const auto& hints = hints_of(endpoint);
    if (hints.empty()) return false;
    any_names_us = any_names_us || has(hints, name);
  }
  return any_names_us;
}

const std::vector<std::string>& node_hints(const Endpoint& e) {
  return e.source->node_hints;
}
const std::vector<std::string>& zone_hints(const Endpoint& e) {
  return e.source->zone_hints;
}

TopologyMode topology_mode(const Endpoints& endpoints, std::string_view node,
                           std::string_view zone) {
  if (hints_apply(endpoints, node, node_hints)) return TopologyMode::node;
  if (hints_apply(endpoints, zone, zone_hints)) return TopologyMode::zone;
  return TopologyMode::none;
}

template <typename Predicate>
std::vector<const Endpoint*> filter(const Endpoints& endpoints, Predicate wanted) {
  std::vector<const Endpoint*> result;
  for (const auto& endpoint : endpoints)
    if (wanted(endpoint)) result.push_back(&endpoint);
  return result;
}

std::vector<const Endpoint*> cluster_endpoints(const Endpoints& endpoints, std::string_view node,
                                               std::string_view zone) {
  const auto mode = topology_mode(endpoints, node, zone);
  auto chosen = filter(endpoints, [&](const Endpoint& endpoint) {
    if (!is_ready(endpoint)) return false;
    if (mode == TopologyMode::node) return has(node_hints(endpoint), node);
    if (mode == TopologyMode::zone) return has(zone_hints(endpoint), zone);
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

EndpointChoice choose_endpoints(const model::ServicePort& port, const Endpoints& endpoints,
                                std::string_view node_name, std::string_view zone) {
  EndpointChoice choice;
  if (port.uses_cluster()) choice.cluster = cluster_endpoints(endpoints, node_name, zone);
  if (port.uses_local()) choice.local = local_endpoints(endpoints);
  choice.any = std::any_of(endpoints.begin(), endpoints.end(), [](const Endpoint& endpoint) {
    return is_ready(endpoint) || is_serving_terminating(endpoint);
  });
  return choice;
}

}  // namespace ipvsproxier::plan
