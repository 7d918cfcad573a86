#pragma once

// `ipvsctl diff` and `ipvsctl plan`. They change nothing. Exit statuses: 0 equal, 1 different, 2
// could not tell.

#include <string>
#include <vector>

#include "cmd/output.h"

namespace ipvsproxier::cmd {

struct DiffOptions {
  std::string socket;  // the daemon's
  bool json = false;
};

struct PlanOptions {
  std::vector<std::string> arguments;  // of ipvs-proxier
  std::string kubeconfig;              // in the configuration's place; "": none
  bool json = false;
};

// What a daemon wants against what the kernel holds. A daemon that is at work differs for a moment:
// only what is different twice is told.
int run_diff(const DiffOptions& options, Output& output);

// What a daemon with these flags would do here.
int run_plan(const PlanOptions& options, Output& output);

}  // namespace ipvsproxier::cmd
