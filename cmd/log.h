#pragma once

// The daemon's logger, and what its roots tell with it.

#include <cstddef>
#include <cstdint>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// To standard error, from any thread. klog's verbosity: from 4 on every operation is told.
spdlog::logger make_logger(std::uint32_t verbosity);

// One line each. The number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
