#include "proxier/plan/topology.h"

#include <algorithm>

namespace ipvsproxier::plan {

namespace {

using model::Endpoint;
using model::Hint;
using Endpoints = std::vector<Endpoint>;

// The endpoints that are considered.
enum class Reach { all, zone, node, local };

bool is_ready(const Endpoint& endpoint) {
  return endpoint.ready;
}

bool is_serving_terminating(const Endpoint& endpoint) {
  return endpoint.serving && endpoint.terminating;
}

// Hints of one kind count only if every ready endpoint has them and at least one names this node or
// zone.
bool hints_apply(const Endpoints& endpoints, Hint Endpoint::*hint) {
  bool any_names_us = false;
  for (const auto& endpoint : endpoints) {
    if (!is_ready(endpoint)) continue;
    if (endpoint.*hint == Hint::none) return false;
    any_names_us = any_names_us || endpoint.*hint == Hint::ours;
  }
  return any_names_us;
}

Reach cluster_reach(const Endpoints& endpoints) {
  if (hints_apply(endpoints, &Endpoint::node_hint)) return Reach::node;
  if (hints_apply(endpoints, &Endpoint::zone_hint)) return Reach::zone;
  return Reach::all;
}

EndpointUse use_of(const Endpoint& endpoint, Reach reach, bool last_resort) {
  if (reach == Reach::local && !endpoint.local) return EndpointUse::not_local;
  if (last_resort && is_serving_terminating(endpoint)) return EndpointUse::last_resort;
  if (!is_ready(endpoint))
    return endpoint.terminating ? EndpointUse::terminating : EndpointUse::not_ready;
  if (reach == Reach::node && endpoint.node_hint != Hint::ours) return EndpointUse::other_node;
  if (reach == Reach::zone && endpoint.zone_hint != Hint::ours) return EndpointUse::other_zone;
  return EndpointUse::used;
}

// The usable endpoints within reach; if there are none, those usable as a last resort.
std::vector<const Endpoint*> within(const Endpoints& endpoints, Reach reach) {
  std::vector<const Endpoint*> result;
  for (const auto wanted : {EndpointUse::used, EndpointUse::last_resort}) {
    for (const auto& endpoint : endpoints)
      if (use_of(endpoint, reach, wanted == EndpointUse::last_resort) == wanted)
        result.push_back(&endpoint);
    if (!result.empty()) break;
  }
  return result;
}

}  // namespace

EndpointChoice choose_endpoints(const model::ServicePort& port, const Endpoints& endpoints) {
  EndpointChoice choice;
  if (port.uses_cluster()) choice.cluster = within(endpoints, cluster_reach(endpoints));
  if (port.uses_local()) choice.local = within(endpoints, Reach::local);
  choice.any = std::any_of(endpoints.begin(), endpoints.end(), [](const Endpoint& endpoint) {
    return is_ready(endpoint) || is_serving_terminating(endpoint);
  });
  return choice;
}

std::vector<EndpointUse> judge_endpoints(const Endpoints& endpoints, bool by_local) {
  const auto reach = by_local ? Reach::local : cluster_reach(endpoints);
  std::vector<EndpointUse> uses;
  for (const bool last_resort : {false, true}) {
    uses.clear();
    for (const auto& endpoint : endpoints) uses.push_back(use_of(endpoint, reach, last_resort));
    if (std::find(uses.begin(), uses.end(), EndpointUse::used) != uses.end()) break;
  }
  return uses;
}

std::string_view to_string(EndpointUse use) {
  switch (use) {
    case EndpointUse::used:
      return "used";
    case EndpointUse::last_resort:
      return "used: terminating, but no other one could be";
    case EndpointUse::not_ready:
      return "not ready";
    case EndpointUse::terminating:
      return "terminating";
    case EndpointUse::not_local:
      return "not on this node (traffic policy Local)";
    case EndpointUse::other_node:
      return "for another node (topology hints)";
    case EndpointUse::other_zone:
      return "for another zone (topology hints)";
  }
  return "?";
}

ServerWeight weight_of(const Endpoint& endpoint, EndpointUse use) {
  if (use != EndpointUse::used && use != EndpointUse::last_resort) return {0, to_string(use)};
  const auto why = [&]() -> std::string_view {
    switch (endpoint.weight.by) {
      case model::WeightBy::nobody:
        return "";
      case model::WeightBy::slice:
        return "by its EndpointSlice";
      case model::WeightBy::local:
        return "by ipvs-proxier/weights, local";
      case model::WeightBy::zone:
        return "by ipvs-proxier/weights, its zone";
      case model::WeightBy::node:
        return "by ipvs-proxier/weights, its node";
    }
    return "";
  };
  return {endpoint.weight.value, why()};
}

}  // namespace ipvsproxier::plan
