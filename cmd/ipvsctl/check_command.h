#pragma once

// `ipvsctl check`: whether an ipvs-proxier can do its work on this node (cmd/check_node.h): the one
// that runs here, else one with the given flags. Changes nothing. Exit status: 0 fine, 1 with
// limits, 2 it cannot, or the flags are wrong.

#include <string>
#include <vector>

#include "cmd/ipvsctl/output.h"

namespace ipvsproxier::ctl {

struct CheckOptions {
  std::vector<std::string> arguments;  // of ipvs-proxier; without any, those of the running one
  std::string socket;                  // the daemon's
  bool json = false;
};

int run_check(const CheckOptions& options, Output& output);

}  // namespace ipvsproxier::ctl
