#include "proxier/check/findings.h"

#include <algorithm>

namespace ipvsproxier::check {

std::string_view to_string(Level level) {
  switch (level) {
    case Level::fine:
      return "fine";
    case Level::note:
      return "note";
    case Level::limit:
      return "limit";
    case Level::cannot:
      return "cannot";
  }
  return "";
}

Level worst(const Findings& findings) {
  auto level = Level::fine;
  for (const auto& finding : findings) level = std::max(level, finding.level);
  return level;
}

int exit_status(Level level) {
  if (level == Level::cannot) return 2;
  return level == Level::limit ? 1 : 0;
}

}  // namespace ipvsproxier::check
