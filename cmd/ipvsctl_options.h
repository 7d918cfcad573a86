#pragma once

// The command line of ipvsctl.

#include <iosfwd>
#include <string>
#include <variant>

#include "cmd/explain_options.h"
#include "cmd/ipvsctl_diff.h"
#include "cmd/ipvsctl_status.h"
#include "cmd/ipvsctl_top.h"
#include "cmd/ipvsctl_views.h"
#include "proxier/inspect/list_filter.h"
#include "proxier/inspect/set_listing.h"
#include "proxier/inspect/table_form.h"

namespace ipvsproxier::cmd {

enum class ListSubject : std::uint8_t { table, connections, timeouts, daemons };
enum class ListFormat : std::uint8_t { text, wide, json, yaml, save };

struct ListOptions {
  ListSubject subject = ListSubject::table;
  ListFormat format = ListFormat::text;
  inspect::Columns columns = inspect::Columns::plain;
  bool persistence = false;  // of connections: what their engine found
  bool exact = false;
  bool numeric = false;
  bool sorted = true;
  inspect::ListFilter filter;
};

struct SetsOptions {
  std::string name;  // "": all of ours
  inspect::SetFormat format = inspect::SetFormat::text;
};

// The command with its options. Otherwise the exit status: 0 after --help and --version, which are
// answered on `out`; 2 after a wrong command line, which is explained on `err`.
using CtlCommand =
    std::variant<int, ListOptions, SetsOptions, ExplainOptions, DiffOptions, PlanOptions,
                 StatusOptions, TopOptions, AddressesOptions, ConnectionsOptions>;

CtlCommand parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                             std::ostream& err);

}  // namespace ipvsproxier::cmd
