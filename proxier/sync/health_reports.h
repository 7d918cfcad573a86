#pragma once

// HealthReports: what health servers are to tell of Services, in step with the kernel: more
// endpoints are told when the kernel has the Service, fewer at once; and where they listen. Sync
// thread only.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::sync {

class HealthReports {
 public:
  // These Services, or their EndpointSlices, changed.
  void touch(const std::set<api::NamespacedName>& services);

  // This node changed, perhaps.
  void see_node(const plan::NodeInfo& node, const plan::PlannerOptions& options);

  // What changed since the last call. `waiting`: parts of the kernel state that are not as wanted;
  // `sure`: all others are.
  serve::ServiceHealthChanges take(const model::ClusterState& cluster, const plan::Planner& planner,
                                   const std::string& node_name, const plan::Scope& waiting,
                                   bool sure);

 private:
  using Report = std::optional<serve::ServiceHealth>;

  Report told(const api::NamespacedName& service) const;

  std::optional<serve::NodePortHealthAddresses> addresses_;
  bool addresses_told_ = true;
  std::set<api::NamespacedName> touched_;
  std::map<api::NamespacedName, serve::ServiceHealth> told_;
};

}  // namespace ipvsproxier::sync
