#pragma once

// OlderAnswers: whether to believe an answer that is older than the known state. Pure.
//
// A lagging server looks at first like a store that was restored from a backup. Two such answers in
// a row, the second over another connection, are believed.

#include <optional>
#include <string_view>

#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {

class OlderAnswers {
 public:
  // `version` is the answer's, `known` the known one. nullopt: the answer is not older.
  // Trouble::older: ask over another connection. Trouble::expired: the store went back; list
  // everything.
  std::optional<Ending> objection(std::string_view known, std::string_view version);

 private:
  unsigned in_a_row_ = 0;
};

}  // namespace ipvsproxier::watch
