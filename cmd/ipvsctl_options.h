#pragma once

// The command line of ipvsctl.

#include <iosfwd>
#include <string>
#include <variant>

#include "cmd/explain_options.h"
#include "cmd/ipvsctl_diff.h"
#include "cmd/ipvsctl_service.h"
#include "cmd/ipvsctl_status.h"
#include "cmd/ipvsctl_top.h"
#include "cmd/ipvsctl_views.h"
#include "cmd/list_options.h"
#include "proxier/inspect/rule_listing.h"
#include "proxier/inspect/set_listing.h"

namespace ipvsproxier::cmd {

struct SetsOptions {
  std::string name;  // "": all of our sets
  inspect::SetFormat format = inspect::SetFormat::text;
  bool names = true;  // show the owners of elements, asking the daemon on `socket`
  std::string socket;
};

// The command with its options, or an exit status: 0 after --help and --version (printed on `out`),
// 2 after a wrong command line (explained on `err`).
using CtlCommand = std::variant<int, ListOptions, SetsOptions, ExplainOptions, DiffOptions,
                                PlanOptions, StatusOptions, ServiceOptions, TopOptions,
                                AddressesOptions, ConnectionsOptions, inspect::RuleStyle>;

CtlCommand parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                             std::ostream& err);

}  // namespace ipvsproxier::cmd
