#pragma once

// Prints the steps of a dry run, as text and as JSON. Pure.

#include <string>
#include <string_view>

#include "cmd/rehearse.h"

namespace ipvsproxier::cmd {

// One line for each step, by table: missing (+), not desired (-) or different (~), and a summary:
// "3 differences: 2 in virtual servers, 1 in IP sets". `none` if there are no steps.
std::string steps_text(const Rehearsed& rehearsed, std::string_view word, std::string_view none);

// {"complete":true,"steps":[{"table":...,"change":"add","what":...,"service":...}],"notes":[...]}
std::string steps_json(const Rehearsed& rehearsed);

}  // namespace ipvsproxier::cmd
