#pragma once

// `ipvsctl diff`, `ipvsctl plan` and `ipvsctl status`. They change nothing. Exit statuses: 0 equal
// (or well), 1 different (or not well), 2 could not tell.

#include <string>
#include <vector>

#include "cmd/output.h"

namespace ipvsproxier::cmd {

struct DiffOptions {
  std::string socket;  // the daemon's
  bool json = false;
};

struct StatusOptions {
  std::string socket;
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

// How the daemon is.
int run_status(const StatusOptions& options, Output& output);

}  // namespace ipvsproxier::cmd
