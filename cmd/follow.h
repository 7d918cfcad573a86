#pragma once

// Following: the threads and wires of a daemon that stays.

#include <spdlog/logger.h>

#include "cmd/kernel_tables.h"
#include "cmd/options.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::cmd {

// Whether the rules would be wrong for want of this node's pod CIDRs: pods are told by them.
bool lacks_pod_cidrs(const Options& options, const std::optional<api::Node>& node);

// Follows the manifests until a signal or a changed configuration ends it; the kernel stays as it
// is then. The exit status.
int follow(const Options& options, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
