#pragma once

// Steps of a rehearsal, for people and for programs. Pure.

#include <string>
#include <string_view>

#include "cmd/rehearse.h"

namespace ipvsproxier::cmd {

// By table, what is missing (+), not wanted (-) or different (~), a line each, and their number:
// "3 differences: 2 in virtual servers, 1 in IP sets". Where there is none, `none`.
std::string steps_text(const Rehearsed& rehearsed, std::string_view word, std::string_view none);

// {"complete":true,"steps":[{"table":...,"change":"add","what":...,"service":...}],"notes":[...]}
std::string steps_json(const Rehearsed& rehearsed);

}  // namespace ipvsproxier::cmd
