#pragma once

// Answers about packets of which not everything is known, in the order in which std::min() is "and"
// and std::max() is "or". Any thread.

#include <cstdint>

namespace ipvsproxier::ipset {

enum class Answer : std::uint8_t { no, unknown, yes };

constexpr Answer answer_of(bool holds, bool negated = false) {
  return holds != negated ? Answer::yes : Answer::no;
}

constexpr Answer inverted(Answer answer, bool inverts = true) {
  if (!inverts || answer == Answer::unknown) return answer;
  return answer_of(answer == Answer::no);
}

}  // namespace ipvsproxier::ipset
