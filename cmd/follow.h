#pragma once

// Following: the threads and wires of a daemon that stays.

#include <spdlog/logger.h>

#include "cmd/options.h"

namespace ipvsproxier::cmd {

// Follows the cluster's objects until a signal or a changed configuration ends it; the kernel stays
// as it is then. The exit status.
int follow(const Options& options, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
