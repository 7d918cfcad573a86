#pragma once

// Timing for benchmarks: the median of repeated runs with its spread, and ratios between them.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace ipvsproxier::bench {

struct Timing {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

template <typename Work>
Timing measure(Work work, int runs = 7) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

// One row; `per` is what the time is divided by for the last column, in microseconds each.
inline void print_row(const std::string& what, const Timing& timing, std::size_t per) {
  std::printf("%-44s %10.2f ms  [%.2f .. %.2f]  %8.2f us each\n", what.c_str(), timing.median_ms,
              timing.least_ms, timing.most_ms, timing.median_ms * 1000 / static_cast<double>(per));
}

}  // namespace ipvsproxier::bench
