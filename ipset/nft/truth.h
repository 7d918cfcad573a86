#pragma once

// Answers about packets of which not all is known, in the order in which std::min() is "and",
// std::max() "or". Any thread.

#include <cstdint>

namespace ipvsproxier::ipset {

enum class Truth : std::uint8_t { no, maybe, yes };

constexpr Truth truth_of(bool holds) {
  return holds ? Truth::yes : Truth::no;
}

constexpr Truth opposite(Truth truth) {
  if (truth == Truth::maybe) return truth;
  return truth_of(truth == Truth::no);
}

}  // namespace ipvsproxier::ipset
