#pragma once

// The command line of ipvsctl.

#include <iosfwd>
#include <string>
#include <variant>

#include "cmd/ipvsctl/check_command.h"
#include "cmd/ipvsctl/diff/diff_command.h"
#include "cmd/ipvsctl/explain/explain_options.h"
#include "cmd/ipvsctl/listing/list_options.h"
#include "cmd/ipvsctl/listing/set_listing.h"
#include "cmd/ipvsctl/listing/view_commands.h"
#include "cmd/ipvsctl/rules/rule_listing.h"
#include "cmd/ipvsctl/service/service_command.h"
#include "cmd/ipvsctl/status_command.h"
#include "cmd/ipvsctl/top/top_command.h"

namespace ipvsproxier::ctl {

struct SetsOptions {
  std::string name;  // "": all of our sets
  SetFormat format = SetFormat::text;
  bool names = true;  // show the owners of elements, asking the daemon on `socket`
  std::string socket;
};

// The command with its options, or an exit status: 0 after --help and --version (printed on `out`),
// 2 after a wrong command line (explained on `err`).
using CtlCommand = std::variant<int, ListOptions, SetsOptions, ExplainOptions, DiffOptions,
                                PlanOptions, StatusOptions, ServiceOptions, TopOptions,
                                AddressesOptions, ConnectionsOptions, RuleStyle, CheckOptions>;

CtlCommand parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                             std::ostream& err);

}  // namespace ipvsproxier::ctl
