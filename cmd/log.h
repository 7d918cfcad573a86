#pragma once

// The daemon's logger, and what its roots tell with it.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

// To standard error, from any thread, as text or as one JSON object a line ("ts" in milliseconds,
// "level", "msg"). klog's verbosity: from 4 on every operation is told.
spdlog::logger make_logger(const LoggingConfig& logging);

// One line each. The number of errors.
std::size_t log_problems(const api::Problems& problems, spdlog::logger& logger);

// Tells what of the configuration does not fit this node. False: so little that kube-proxy would
// end, and so does the caller, before anything is programmed.
bool fits_node(const Options& options, const std::vector<netlink::Family>& families,
               const std::optional<api::Node>& node, spdlog::logger& logger);

// What the manifests lack.
void log_no_node(const Options& options, spdlog::logger& logger);
void log_incomplete(const Options& options, spdlog::logger& logger);
void log_no_pod_cidrs(const Options& options, std::string_view consequence, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
