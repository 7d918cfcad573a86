#pragma once

// The parts of a list of operations: so many at a time, and those that are not held back. Pure; any
// thread.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ipvsproxier::sync {

// Splits large numbers of operations into parts of kPart, so that the memory of one part is reused.
// Ends when `work` returns false.
template <std::size_t kPart, typename Op, typename Work>
void for_parts(std::span<const Op> ops, Work work) {
  for (; !ops.empty(); ops = ops.subspan(std::min(kPart, ops.size())))
    if (!work(ops.first(std::min(kPart, ops.size())))) return;
}

// The operations for which `is_held` returns false; it is called once for each, in order. They are
// copied to `some` only if others are held.
template <typename Op, typename Held>
std::span<const Op> without_held(std::span<const Op> ops, std::vector<Op>& some, Held is_held) {
  std::size_t held = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (is_held(ops[i])) {
      if (held++ == 0) some.assign(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (held > 0) {
      some.push_back(ops[i]);
    }
  }
  return held > 0 ? std::span<const Op>(some) : ops;
}

}  // namespace ipvsproxier::sync
