#pragma once

// `ipvs-proxier --check` and `ipvsctl check`: whether a daemon with these options can do its work
// on this node. Changes nothing and makes the kernel load nothing. Blocks, for some seconds if the
// API server is silent. One thread.

#include <string>

#include <spdlog/logger.h>

#include "cmd/options.h"

namespace ipvsproxier::cmd {

struct CheckReport {
  int status = 0;  // 0 fine, 1 works with limits, 2 cannot work
  std::string text;
};

// `json`: as one JSON document, else as text for people. Whether a daemon runs is asked of its
// control socket: the ports and virtual services of a running one are its own.
CheckReport check_node(const Options& options, bool json, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
