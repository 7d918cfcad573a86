#pragma once

// What random tests share: luck and length from outside, and the smallest part of a failing input
// that still fails, to be printed beside its seed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ipvsproxier::test {

// Takes away half of the steps, then quarters, eighths and so on down to single steps, as long as
// `fails` still says so of the rest. At most `tries` calls of `fails`. The order of steps stays.
template <typename Step, typename Fails>
std::vector<Step> shrink(std::vector<Step> steps, const Fails& fails, int tries = 200) {
  for (std::size_t size = (steps.size() + 1) / 2; size > 0 && tries > 0;
       size = size > 1 ? (size + 1) / 2 : 0) {
    for (std::size_t from = 0; from < steps.size() && tries > 0;) {
      const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(from);
      const auto count = static_cast<std::ptrdiff_t>(std::min(size, steps.size() - from));
      std::vector<Step> rest(steps.begin(), begin);
      rest.insert(rest.end(), begin + count, steps.end());
      --tries;
      if (fails(rest))
        steps = std::move(rest);
      else
        from += size;
    }
  }
  return steps;
}

// IPVS_PROXIER_SOAK_SEED and IPVS_PROXIER_SOAK_SECONDS say with what luck and how long random tests
// run. Daily neither is set: the seed is fixed and `otherwise` is a few seconds.
inline std::int64_t environment_number(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::stoll(text) : otherwise;
}

// How many of its seeds a random test tries: a third daily, all of them where
// IPVS_PROXIER_ALL_SEEDS is set (./dev test --all).
inline std::uint32_t seeds(std::uint32_t all) {
  return std::getenv("IPVS_PROXIER_ALL_SEEDS") != nullptr ? all : (all + 2) / 3;
}

}  // namespace ipvsproxier::test
