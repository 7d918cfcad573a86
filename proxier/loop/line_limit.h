#pragma once

// LineLimit: how many log lines may be written because of objects. Whoever writes an object could
// otherwise cause lines as fast as it changes. The next line after a minute with too many tells how
// many were left out. One thread at a time.

#include <cstddef>
#include <string>

#include <spdlog/logger.h>

#include "proxier/loop/timers.h"

namespace ipvsproxier::loop {

class LineLimit {
 public:
  using TimePoint = Timers::Clock::time_point;

  static constexpr std::size_t kMostInMinute = 60;
  // Lines that are no errors leave room for errors.
  static constexpr std::size_t kMostWarnings = kMostInMinute / 2;

  // "ABOUT7 more WHAT were not told"
  explicit LineLimit(spdlog::logger& logger, std::string about = {},
                     std::string what = "problems of objects");

  // Whether one more line may be written now.
  bool admits(TimePoint now, bool is_error);
  // Writes the line at this level, or at debug if there is no room for it.
  void log(spdlog::level::level_enum level, const std::string& line, TimePoint now);

 private:
  spdlog::logger& logger_;
  std::string about_;
  std::string what_;
  TimePoint minute_;  // begin of the current minute
  std::size_t in_minute_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace ipvsproxier::loop
