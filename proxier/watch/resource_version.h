#pragma once

// Resource versions: which of two versions of one resource is newer. Pure.
//
// Since KEP-5504 a resource version is a decimal number of any length without leading zeros, and
// versions of one resource can be compared. Other texts are opaque.

#include <compare>
#include <optional>
#include <string_view>

#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {

// nullopt: not comparable.
std::optional<std::strong_ordering> compare_versions(std::string_view left, std::string_view right);

// True if both are numbers and `left` is not newer than `right`.
bool is_old(std::string_view left, std::string_view right);

// OlderAnswers: whether to believe an answer that is older than the known state.
//
// A lagging server looks at first like a store that was restored from a backup. Two such answers in
// a row, the second over another connection, are believed.
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
