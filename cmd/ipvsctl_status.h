#pragma once

// `ipvsctl status`: how the daemon is, and what this kernel has of what it needs. Changes nothing
// and loads no module.

#include <string>

#include "cmd/output.h"

namespace ipvsproxier::cmd {

struct StatusOptions {
  std::string socket;  // the daemon's
  bool json = false;
  std::string probe;  // "livez" or "healthz": no more than whether that is well; "": everything
};

// Exit status 0: it is well; 1: it is not; 2: that could not be told, and only the kernel is shown.
int run_status(const StatusOptions& options, Output& output);

}  // namespace ipvsproxier::cmd
