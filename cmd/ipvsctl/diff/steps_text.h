#pragma once

// Prints the steps of a dry run, as text and as JSON. Pure.

#include <string>
#include <string_view>

#include "cmd/ipvsctl/diff/dry_run.h"

namespace ipvsproxier::ctl {

// One line for each step, by table: missing (+), not desired (-) or different (~), and a summary:
// "3 differences: 2 in virtual servers, 1 in IP sets". `none` if there are no steps.
std::string steps_text(const DryRun& result, std::string_view word, std::string_view none);

// {"complete":true,"steps":[{"table":...,"change":"add","what":...,"service":...}],"notes":[...]}
std::string steps_json(const DryRun& result);

}  // namespace ipvsproxier::ctl
