#pragma once

// The daemon's logger, and what its roots tell with it.

#include <cstddef>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

spdlog::sink_ptr standard_error();

// What a line tells at most, in bytes; of more its beginning, and how much there is.
inline constexpr std::size_t kMostLogged = 16384;

// To standard error, from any thread, as text or as one JSON object a line ("ts" in milliseconds,
// "level", "msg"). Each message is one line in which nothing acts on a terminal (visible_text.h).
// klog's verbosity: from 4 on every operation is told.
spdlog::logger make_logger(const LoggingConfig& logging, spdlog::sink_ptr sink = standard_error());

// ipvsctl's: "ipvsctl: MESSAGE", on standard error as well.
spdlog::logger make_tool_logger(spdlog::level::level_enum from,
                                spdlog::sink_ptr sink = standard_error());

// One line each. The number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger);

// That the manifests lack something.
void log_incomplete(const Options& options, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
