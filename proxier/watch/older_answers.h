#pragma once

// OlderAnswers: whether an answer that is older than what is known is to be believed. Pure.
//
// A server that lags behind the others looks at first like a store that was restored from a backup.
// Two in a row, of which the second came over another connection, are believed.

#include <optional>
#include <string_view>

#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {

class OlderAnswers {
 public:
  // An answer is of `version`, what is known of `known`. Nothing: it is not older. Trouble::older:
  // ask over another connection; Trouble::expired: it went back, list everything.
  std::optional<Ending> objection(std::string_view known, std::string_view version);

 private:
  unsigned in_a_row_ = 0;
};

}  // namespace ipvsproxier::watch
