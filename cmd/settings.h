#pragma once

// Converts Options to the settings of planner and reconciler. Pure.

#include "cmd/options.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/host_setup.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::cmd {

// `families` are those that this host supports.
plan::PlannerOptions planner_options(const Options& options,
                                     const std::vector<netlink::Family>& families);

// For a machine with these families and this number of CPUs.
sync::ReconcilerSettings reconciler_settings(const Options& options,
                                             const std::vector<netlink::Family>& families,
                                             unsigned cpus);

}  // namespace ipvsproxier::cmd
