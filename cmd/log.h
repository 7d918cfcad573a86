#pragma once

// The daemon's logger, and what its roots tell with it.

#include <cstddef>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// To standard error, from any thread, as text or as one JSON object a line ("ts" in milliseconds,
// "level", "msg"). klog's verbosity: from 4 on every operation is told.
spdlog::logger make_logger(const LoggingConfig& logging);

// One line each. The number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger);

// That the manifests lack something.
void log_incomplete(const Options& options, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
