#pragma once

// Follow mode: the daemon's threads and the connections between them.

#include <spdlog/logger.h>

#include "cmd/options.h"

namespace ipvsproxier::cmd {

// Follows the cluster's objects until a signal or a changed configuration; the kernel state stays.
// Returns the exit status.
int run_daemon(const Options& options, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
