#pragma once

// The kernel's statistics of this process, for Prometheus' process_* metrics. Any thread.

#include <cstdint>

namespace ipvsproxier::serve {

struct ProcessStats {
  double cpu_seconds = 0;  // user and system
  std::uint64_t open_fds = 0;
  std::uint64_t max_fds = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t max_virtual_bytes = 0;  // all ones: no limit
  std::uint64_t resident_bytes = 0;
  double start_time_seconds = 0;  // since the epoch
};

// Values that cannot be read are 0.
ProcessStats read_process_stats();

}  // namespace ipvsproxier::serve
