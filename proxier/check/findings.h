#pragma once

// What a check of a node found: a list of findings, the worst of which is the verdict. Values; any
// thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipvsproxier::check {

enum class Level : std::uint8_t {
  fine,    // was looked at, nothing to say against it
  note,    // worth knowing, costs nothing by itself
  limit,   // the daemon works, but for what the finding names
  cannot,  // the daemon cannot do its work
};

std::string_view to_string(Level level);  // "cannot"

struct Finding {
  Level level = Level::fine;
  std::string about;    // "module ip_vs_rr"; may contain the names of others, not yet visible()
  std::string message;  // a sentence without a full stop; likewise
  std::string remedy;   // what to do; empty where the message says it

  friend auto operator<=>(const Finding&, const Finding&) = default;
};

using Findings = std::vector<Finding>;

// The level of the worst finding; fine without any.
Level worst(const Findings& findings);
// The exit status that tells it: 0 fine (notes included), 1 limit, 2 cannot.
int exit_status(Level level);

}  // namespace ipvsproxier::check
