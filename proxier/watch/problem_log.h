#pragma once

// ProblemLog: logs problems with the objects of one resource. An author of objects can cause
// problems again and again, so each problem is logged once, and so many a minute at most
// (loop/line_limit.h). One thread at a time.

#include <cstddef>
#include <set>
#include <string>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/loop/line_limit.h"
#include "proxier/loop/timers.h"

namespace ipvsproxier::watch {

class ProblemLog {
 public:
  using TimePoint = loop::Timers::Clock::time_point;

  static constexpr std::size_t kMostRemembered = 1000;

  // `resource` begins each line.
  ProblemLog(std::string resource, spdlog::logger& log);

  void tell(const api::Problems& problems, TimePoint now);

 private:
  void tell(const api::Problem& problem, TimePoint now);

  std::string resource_;
  spdlog::logger& log_;
  std::set<std::string> told_;
  loop::LineLimit limit_;
};

}  // namespace ipvsproxier::watch
