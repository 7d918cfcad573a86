#pragma once

// Drift: reports changes that other programs made to the kernel, as found by reading it: the first
// ones by a log line each, the rest as a count. Sync thread only. Logs.

#include <cstddef>

#include <spdlog/logger.h>

#include "proxier/plan/mirror.h"

namespace ipvsproxier::sync {

class Drift {
 public:
  explicit Drift(spdlog::logger& logger) : logger_(logger) {}

  // Stores a reading in the mirror. Logs the repairs in `differs` that the reading makes
  // necessary; returns their number.
  std::size_t take(const plan::DesiredState& desired, const plan::Scope& differs,
                   const plan::Mirror::Reading& reading, plan::Mirror& mirror);

  // Ends a series of readings: logs how many repairs were not named.
  void end();

 private:
  spdlog::logger& logger_;
  std::size_t count_ = 0;
};

}  // namespace ipvsproxier::sync
