#pragma once

// The command line of `ipvsctl explain`.

#include <string>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/commands.h"

namespace CLI {
class App;
}

namespace ipvsproxier::ctl {

// The flags as texts.
struct ExplainWords {
  std::string source;       // "10.1.0.7", "10.1.0.7:4000", "node"
  std::string destination;  // "10.96.0.1:80", "[fd00::1]:53/udp"
  std::string in_link;
  std::string socket = cmd::kControlSocket;
  bool live = false;
  bool json = false;
};

// Adds the command's flags, which write into `words`.
void add_explain_flags(CLI::App& command, ExplainWords& words);

// Throws a CLI::ValidationError that names the mistake.
ExplainOptions explain_options(const ExplainWords& words);

}  // namespace ipvsproxier::ctl
