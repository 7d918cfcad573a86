#pragma once

// SyncLog: logs syncs, and what they could not do. A line that is still true is not repeated before
// some time has passed. The authors of objects could cause new lines all the time, so each kind of
// lines is limited for each minute (loop/line_limit.h). Sync thread only.

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/loop/line_limit.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct SyncReport;

struct SyncProblems {
  api::Problems problems;         // of objects and the configuration
  std::vector<Failure> failures;  // failed operations
  std::vector<Failure> warnings;  // failures without effect on traffic
  std::vector<std::string> held;  // operations that were held back because of the failures
};

class SyncLog {
 public:
  explicit SyncLog(spdlog::logger& logger) : logger_(logger) {}

  // `next` says what happens next ("trying again in 2 s", ""). `all`: these are all current
  // problems, so earlier lines that are not among them are over.
  void tell(const SyncProblems& problems, bool all, const std::string& next, TimePoint now);

  // One line for a sync that did anything.
  void tell(const SyncReport& report, std::chrono::nanoseconds took, TimePoint now);

  // For other lines that objects cause.
  loop::LineLimit& objects() { return objects_; }

  // The logged lines that are not known to be over.
  std::vector<std::string> standing() const;

 private:
  void tell(loop::LineLimit& limit, spdlog::level::level_enum level, const std::string& line,
            const std::string& next, TimePoint now, std::string_view owner = {});
  bool is_told(const std::string& line, TimePoint now) const;

  spdlog::logger& logger_;
  struct Told {
    TimePoint at;
    bool now = false;  // in the current call
  };
  std::map<std::string, Told> told_;
  loop::LineLimit objects_{logger_};
  // Each change of an object may meet failures of the node anew.
  loop::LineLimit failures_{logger_, "", "failures"};
  loop::LineLimit syncs_{logger_, "", "syncs"};
};

}  // namespace ipvsproxier::sync
