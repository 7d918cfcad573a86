#pragma once

// LineLimit: how many log lines may be written because of objects. Whoever writes an object could
// otherwise cause lines as fast as it changes. A namespace gets at most half of what the other
// namespaces leave, so that there is room for a line about somebody else. The next line after a
// minute with too many says how many were left out. One thread at a time.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "proxier/loop/timers.h"

namespace ipvsproxier::loop {

class LineLimit {
 public:
  using TimePoint = Timers::Clock::time_point;

  static constexpr std::size_t kMostInMinute = 60;
  // Warnings and notices leave room for errors.
  static constexpr std::size_t kMostWarnings = kMostInMinute / 2;

  // "ABOUT7 more WHAT were left out of this log"
  explicit LineLimit(spdlog::logger& logger, std::string about = {},
                     std::string what = "problems of objects");

  // Whether one more line may be written now. `owner`: the namespace that the line is about, or ""
  // for a line about the node or about several namespaces.
  bool admits(TimePoint now, bool is_error, std::string_view owner = {});
  // Writes the line at this level, or at debug if there is no room for it.
  void log(spdlog::level::level_enum level, const std::string& line, TimePoint now,
           std::string_view owner = {});

 private:
  bool has_room(std::size_t most, std::string_view owner) const;

  spdlog::logger& logger_;
  std::string about_;
  std::string what_;
  TimePoint minute_;  // begin of the current minute
  std::size_t in_minute_ = 0;
  std::size_t left_out_ = 0;
  std::map<std::string, std::size_t, std::less<>> of_owners_;  // lines in this minute, by namespace
};

}  // namespace ipvsproxier::loop
