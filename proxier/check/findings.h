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

// What to do on one kind of system, and the public page that says so. `system` is "any" for what is
// true everywhere; such advice needs no source.
struct Advice {
  std::string system;
  std::string text;
  std::string source;

  friend auto operator<=>(const Advice&, const Advice&) = default;
};

struct Finding {
  Level level = Level::fine;
  std::string about;    // "module ip_vs_rr"; may contain the names of others, not yet visible()
  std::string message;  // a sentence without a full stop; likewise
  std::vector<Advice> advice;

  friend auto operator<=>(const Finding&, const Finding&) = default;
};

using Findings = std::vector<Finding>;

// The level of the worst finding; fine without any.
Level worst(const Findings& findings);
// The exit status that tells it: 0 fine (notes included), 1 limit, 2 cannot.
int exit_status(Level level);

}  // namespace ipvsproxier::check
