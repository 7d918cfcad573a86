#pragma once

// Drift: what others did to the kernel, as readings of it show: told one by one, up to a number,
// and counted. Sync thread only. Logs.

#include <cstddef>
#include <functional>

#include <spdlog/logger.h>

#include "proxier/plan/actual_state.h"

namespace ipvsproxier::sync {

class Drift {
 public:
  explicit Drift(spdlog::logger& logger) : logger_(logger) {}

  // Takes a reading into the mirror. Tells what of `differs` is to be done now and was not to be
  // done before; answers how much.
  std::size_t take(const plan::DesiredState& desired, const plan::Scope& differs,
                   const std::function<void(plan::ActualState&)>& reading,
                   plan::ActualState& mirror);

  // The readings that belong together are over: says how many were not told.
  void end();

 private:
  spdlog::logger& logger_;
  std::size_t count_ = 0;
};

}  // namespace ipvsproxier::sync
