#pragma once

// `ipvsctl diff` and `ipvsctl plan`. Both change nothing. Exit status: 0 equal, 1 different, 2
// failed.

#include <string>
#include <vector>

#include "cmd/ipvsctl/output.h"

namespace ipvsproxier::ctl {

struct DiffOptions {
  std::string socket;  // the daemon's
  bool json = false;
};

struct PlanOptions {
  std::vector<std::string> arguments;  // of ipvs-proxier
  std::string kubeconfig;              // overrides the configuration's; "": none
  bool json = false;
};

// Compares a daemon's desired state with the kernel. A working daemon differs for moments: only
// differences seen twice are printed.
int run_diff(const DiffOptions& options, Output& output);

// Prints what a daemon with these flags would change here.
int run_plan(const PlanOptions& options, Output& output);

}  // namespace ipvsproxier::ctl
