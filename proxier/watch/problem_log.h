#pragma once

// ProblemLog: logs problems with the objects of one resource. An author of objects can cause
// problems again and again, so each problem is logged once, and at most kMostInMinute are logged in
// a minute; the next line says how many were left out. One thread at a time.

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
  TimePoint minute_;  // begin of the current minute
  std::size_t in_minute_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace ipvsproxier::watch
