#pragma once

// The command line of `ipvsctl explain`.

#include <string>

#include "cmd/command_line.h"
#include "proxier/inspect/packet_walk.h"

namespace CLI {
class App;
}

namespace ipvsproxier::cmd {

struct ExplainOptions {
  inspect::Flow flow;
  bool live = false;  // and what there is of such a flow now
  bool json = false;
  std::string socket;  // where the daemon says the cluster's names
};

// As on the command line.
struct ExplainWords {
  std::string source;       // "10.1.0.7", "10.1.0.7:4000", "node"
  std::string destination;  // "10.96.0.1:80", "[fd00::1]:53/udp"
  std::string in_link;
  std::string socket = kControlSocket;
  bool live = false;
  bool json = false;
};

// Makes the command's flags write into `words`.
void add_explain_flags(CLI::App& command, ExplainWords& words);

// Throws a CLI::ValidationError that names what is wrong.
ExplainOptions explain_options(const ExplainWords& words);

}  // namespace ipvsproxier::cmd
