#pragma once

// SyncLog: logs what a sync could not do. A line that is still true is not repeated before some
// time has passed. Lines about objects are limited for each minute, because their authors could
// cause new ones all the time. Sync thread only.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct SyncProblems {
  api::Problems problems;         // of objects and the configuration
  std::vector<Failure> failures;  // failed operations
  std::vector<Failure> warnings;  // failures without effect on traffic
  std::vector<std::string> held;  // operations that were held back because of the failures
};

class SyncLog {
 public:
  static constexpr std::size_t kMostInMinute = 60;

  explicit SyncLog(spdlog::logger& logger) : logger_(logger) {}

  // `next` says what happens next ("trying again in 2 s", ""). `all`: these are all current
  // problems, so earlier lines that are not among them are over.
  void tell(const SyncProblems& problems, bool all, const std::string& next, TimePoint now);

  // The logged lines that are not known to be over.
  std::vector<std::string> standing() const;

 private:
  void tell(spdlog::level::level_enum level, const std::string& line, const std::string& next,
            TimePoint now);
  void tell(const api::Problem& problem, TimePoint now);
  bool is_told(const std::string& line, TimePoint now) const;

  spdlog::logger& logger_;
  struct Told {
    TimePoint at;
    bool now = false;  // in the current call
  };
  std::map<std::string, Told> told_;

  // Counts problems of objects.
  TimePoint minute_;  // begin of the current minute
  std::size_t in_minute_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace ipvsproxier::sync
