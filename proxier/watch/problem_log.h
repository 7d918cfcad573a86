#pragma once

// ProblemLog: tells a person what is wrong with the objects of one resource. Whoever may write an
// object may write a wrong one, again and again: each problem is told once, however often it comes,
// and so many a minute; how many were left out is told with the next one. One thread at a time.

#include <chrono>
#include <cstddef>
#include <set>
#include <string>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/loop/timers.h"

namespace ipvsproxier::watch {

class ProblemLog {
 public:
  using TimePoint = loop::Timers::Clock::time_point;

  static constexpr std::size_t kMostRemembered = 1000;
  static constexpr std::size_t kMostInMinute = 60;

  // `resource` begins each line.
  ProblemLog(std::string resource, spdlog::logger& log);

  void tell(const api::Problems& problems, TimePoint now);

 private:
  void tell(const api::Problem& problem, TimePoint now);
  void begin_minute(TimePoint now);

  std::string resource_;
  spdlog::logger& log_;
  std::set<std::string> told_;
  TimePoint minute_;  // its beginning
  std::size_t in_minute_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace ipvsproxier::watch
