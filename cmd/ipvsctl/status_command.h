#pragma once

// `ipvsctl status`: the daemon's state, and the kernel features and modules that it needs. Changes
// nothing and loads no module.

#include <string>

#include "cmd/ipvsctl/output.h"

namespace ipvsproxier::ctl {

struct StatusOptions {
  std::string socket;  // the daemon's
  bool json = false;
  std::string probe;  // "livez" or "healthz": only that check; "": everything
};

// Exit status 0: well; 1: not well; 2: unknown, and only the kernel is shown.
int run_status(const StatusOptions& options, Output& output);

}  // namespace ipvsproxier::ctl
