#pragma once

// HealthReports: the values that the health servers of Services report, in step with the kernel,
// and the addresses on which they listen. A larger number of endpoints is reported only once the
// kernel has the Service, a smaller one at once. Sync thread only.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"
#include "proxier/serve/status.h"
#include "proxier/sync/turns.h"

namespace ipvsproxier::sync {

class HealthReports {
 public:
  // These Services, or their EndpointSlices, changed.
  void touch(const std::set<api::NamespacedName>& services);

  // The node may have changed.
  void see_node(const plan::NodeInfo& node, const plan::PlannerOptions& options);

  // The changes since the last call. `waiting`: parts of the kernel state that are not yet as
  // desired; `sure`: all other parts are known to be, except those of Services in `turns`.
  serve::ServiceHealthChanges take(const model::ClusterState& cluster, const plan::Planner& planner,
                                   const std::string& node_name, const plan::Scope& waiting,
                                   bool sure, const Turns& turns);

 private:
  using Report = std::optional<serve::ServiceHealth>;

  Report told(const api::NamespacedName& service) const;

  std::optional<serve::NodePortHealthAddresses> addresses_;
  bool addresses_told_ = true;
  std::set<api::NamespacedName> touched_;
  std::map<api::NamespacedName, serve::ServiceHealth> told_;
};

}  // namespace ipvsproxier::sync
