#pragma once

// HostKeeper: keeps the settings of this node as the daemon needs them (host_setup.h), and names
// settings that are not the daemon's and under which connections fail (plan/pitfalls.h). Sync
// thread only. Logs what it sets.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/model/cluster_state.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/host_setup.h"
#include "proxier/sync/sync_log.h"

namespace ipvsproxier::sync {

class HostKeeper {
 public:
  // Without a setup it does nothing. `logger` must outlive this.
  HostKeeper(std::optional<HostSetup> setup, spdlog::logger& logger)
      : setup_(std::move(setup)), logger_(logger) {}

  // Sets what is not right, and appends what failed. `again`: it was right before, so others
  // changed it. Returns how many settings were written.
  std::size_t keep(netlink::IpvsTable& ipvs, bool again, SyncProblems& problems);
  // Whether the last keep() failed to set something that is needed.
  bool failed() const { return failed_; }

  void see_node(const plan::NodeInfo& node) {
    addresses_ = node.addresses;
    pod_cidrs_ = node.pod_cidrs;
  }
  // Call with each whole comparison: reads the settings of the node that are not the daemon's, and
  // reserves node ports if that is asked for.
  void look(const model::ClusterState& cluster, const plan::PlannerOptions& options,
            std::string_view node_name);
  // What the last look() found.
  const api::Problems& problems() const { return problems_; }

 private:
  void reserve(const std::set<std::uint16_t>& node_ports);
  bool is_of_pods(const netlink::InterfaceAddress& address,
                  const plan::PlannerOptions& options) const;

  const std::optional<HostSetup> setup_;
  spdlog::logger& logger_;
  bool failed_ = false;
  std::vector<netlink::InterfaceAddress> addresses_;
  std::vector<netlink::IpPrefix> pod_cidrs_;
  api::Problems problems_;
};

}  // namespace ipvsproxier::sync
