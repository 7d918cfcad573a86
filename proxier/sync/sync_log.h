#pragma once

// SyncLog: tells a person what a sync could not do. What was told before and is still so is not
// told again until some time has passed. Of what is wrong with objects so much is told a minute:
// whoever may write one may make it wrong in another way each second. Sync thread only.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct SyncProblems {
  api::Problems problems;         // in the objects and the configuration
  std::vector<Failure> failures;  // what the kernel refused
  std::vector<Failure> warnings;  // survivable: traffic flows without
  std::vector<std::string> held;  // what was not tried because of that
};

class SyncLog {
 public:
  static constexpr std::size_t kMostInMinute = 60;

  explicit SyncLog(spdlog::logger& logger) : logger_(logger) {}

  // `next` says what happens now ("trying again in 2 s", ""). `all`: nothing else is wrong; what
  // was told before and is not among these is over.
  void tell(const SyncProblems& problems, bool all, const std::string& next, TimePoint now);

  // What was told and is not known to be over.
  std::vector<std::string> standing() const;

 private:
  void tell(spdlog::level::level_enum level, const std::string& line, const std::string& next,
            TimePoint now);
  void tell(const api::Problem& problem, TimePoint now);
  bool is_told(const std::string& line, TimePoint now) const;

  spdlog::logger& logger_;
  struct Told {
    TimePoint at;
    bool now = false;  // in the call that runs
  };
  std::map<std::string, Told> told_;

  // Problems of objects.
  TimePoint minute_;  // its beginning
  std::size_t in_minute_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace ipvsproxier::sync
