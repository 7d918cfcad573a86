#pragma once

// The loggers of daemon and ipvsctl, and log functions that main programs share.

#include <cstddef>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

spdlog::sink_ptr standard_error();

// The longest message in bytes; of a longer one only the beginning and the length are logged.
inline constexpr std::size_t kMostLogged = 16384;

// Logs to standard error, from any thread, as text or as one JSON object for each line ("ts" in
// milliseconds, "level", "msg"). Each message is one line without terminal control
// (visible_text.h). From klog's verbosity 4 on every operation is logged.
spdlog::logger make_logger(const config::LoggingConfig& logging,
                           spdlog::sink_ptr sink = standard_error());

// The logger of ipvsctl: "ipvsctl: MESSAGE" on standard error.
spdlog::logger make_tool_logger(spdlog::level::level_enum from,
                                spdlog::sink_ptr sink = standard_error());

spdlog::level::level_enum level_of(const api::Problem& problem);

// Logs one line for each problem. Returns the number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger);

// Logs that the manifests are incomplete.
void log_incomplete(const Options& options, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
