#pragma once

// Reconciler: makes the kernel match the cluster. Reads, plans, applies the difference, and tells
// what came of it. Sync thread only. Logs.

#include <memory>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "netlink/result.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/applier.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// What to sync for, and with what.
struct SyncRequest {
  const model::ClusterState& cluster;
  std::string node_name;
  std::optional<netlink::IpAddress> bind_address;  // takes the place of the Node's IP
  plan::PlannerOptions options;
  std::string config_origin;  // the configuration file, to name where the scheduler comes from
};

struct SyncReport {
  Written written;
  std::size_t problems = 0;  // errors in the objects
  std::size_t failures = 0;  // failed and held operations that are still outstanding

  bool complete() const { return problems == 0 && failures == 0; }
};

class Reconciler {
 public:
  Reconciler(Kernel kernel, spdlog::logger& logger) : kernel_(kernel), logger_(logger) {}

  // Brings the whole kernel state to what the cluster asks for. What failed is tried again from a
  // fresh reading as long as that helps, three times in all; what is left is logged by name.
  SyncReport sync(const SyncRequest& request);

 private:
  struct Pass {
    Written written;
    api::Problems problems;
    std::vector<Failure> failures;
    std::vector<std::string> held;
  };

  Pass run_pass(const SyncRequest& request);
  bool ensure_dummy(Pass& pass);
  void log(const Pass& pass);

  Kernel kernel_;
  spdlog::logger& logger_;
};

}  // namespace ipvsproxier::sync
