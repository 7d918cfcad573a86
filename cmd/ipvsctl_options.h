#pragma once

// The command line of ipvsctl.

#include <iosfwd>
#include <optional>

namespace ipvsproxier::cmd {

enum class ListFormat { save };

struct CtlOptions {
  ListFormat format = ListFormat::save;
};

// The options of `ipvsctl list`. Otherwise the exit status: 0 after --help and --version, which are
// answered on `out`; 2 after a wrong command line, which is explained on `err`.
struct CtlCommandLine {
  std::optional<CtlOptions> options;
  int status = 0;
};

CtlCommandLine parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                                 std::ostream& err);

}  // namespace ipvsproxier::cmd
