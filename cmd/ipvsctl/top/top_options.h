#pragma once

// The command line of `ipvsctl top`.

#include <cstddef>
#include <string>

#include "cmd/ipvsctl/commands.h"

namespace CLI {
class App;
}

namespace ipvsproxier::ctl {

// The flags as texts.
struct TopWords {
  std::string by = "service";
  std::string sort_by = "connections";
  std::string filter;
  std::string socket;
  bool numeric = false;
  double interval = 2;
  std::size_t count = 0;
  bool once = false;
  bool reverse = false;
};

// Adds the command's flags, which write into `words`.
void add_top_flags(CLI::App& command, TopWords& words);

// Throws a CLI::ExcludesError for contradicting flags.
TopOptions top_options(const TopWords& words);

}  // namespace ipvsproxier::ctl
