#pragma once

// The daemon's logger, and what its roots tell with it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// To standard error, from any thread. klog's verbosity: from 4 on every operation is told.
spdlog::logger make_logger(std::uint32_t verbosity);

// One line each. The number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger);

// What the manifests lack.
void log_no_node(const Options& options, spdlog::logger& logger);
void log_incomplete(const Options& options, spdlog::logger& logger);
void log_no_pod_cidrs(const Options& options, std::string_view consequence, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
