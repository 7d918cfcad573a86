#pragma once

// Timing for benchmarks: the median of repeated runs with its spread. What counts is the time that
// the thread had a processor, so that others on the machine disturb little.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace ipvsproxier::bench {

struct Timing {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

inline double processor_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

template <typename Work>
Timing measure(Work work, int runs = 7) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto start = processor_ms();
    work();
    times.push_back(processor_ms() - start);
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
