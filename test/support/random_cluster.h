#pragma once

// Random clusters from a seed: every field that the planner reads takes every kind of value.

#include <random>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::test {

// As an API server would take it: a Service with an address has a port.
inline api::Service admissible(api::Service service) {
  if (service.ports.empty() && !service.headless) service.ports.push_back({.name = "", .port = 80});
  return service;
}

class RandomCluster {
 public:
  explicit RandomCluster(std::uint32_t seed) : random_(seed), annotations_(seed), policy_(seed) {}

  model::ClusterState cluster(int services);
  // Changes a field of some objects that are there, at times this node's Node object.
  void tweak(model::ClusterState& cluster);
  // Changes some objects of the cluster: Services and slices come, go and change.
  void change(model::ClusterState& cluster);
  plan::PlannerOptions options();
  plan::NodeInfo node();

  bool chance(int percent) { return number(1, 100) <= percent; }
  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

 private:
  void tweak(api::Service& service);
  void tweak(api::EndpointSlice& slice);
  api::Service service(int index);
  void add_external(api::Service& service, int index);
  std::vector<api::Annotation> annotations();
  api::Endpoint endpoint(netlink::Family family);
  void put_slices(model::ClusterState& cluster, const api::Service& service);

  std::mt19937 random_;
  // Of their own: what tests say of seeds does not depend on annotations, nor on who is sent on.
  std::mt19937 annotations_;
  std::mt19937 policy_;
};

}  // namespace ipvsproxier::test
