#pragma once

// The command line of ipvsctl.

#include <iosfwd>
#include <string>
#include <variant>

#include "cmd/ipvsctl/commands.h"

namespace ipvsproxier::ctl {

// The command with its options, or an exit status: 0 after --help and --version (printed on `out`),
// 2 after a wrong command line (explained on `err`).
using CtlCommand = std::variant<int, ListOptions, SetsOptions, ExplainOptions, DiffOptions,
                                PlanOptions, StatusOptions, ServiceOptions, TopOptions,
                                AddressesOptions, ConnectionsOptions, RuleStyle, CheckOptions>;

CtlCommand parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                             std::ostream& err);

}  // namespace ipvsproxier::ctl
