#include "proxier/loop/line_limit.h"

#include <chrono>
#include <utility>

namespace ipvsproxier::loop {

LineLimit::LineLimit(spdlog::logger& logger, std::string about, std::string what)
    : logger_(logger), about_(std::move(about)), what_(std::move(what)) {}

bool LineLimit::admits(TimePoint now, bool is_error) {
  if (in_minute_ == 0 || now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    in_minute_ = 0;
    if (const auto count = std::exchange(left_out_, 0); count > 0)
      logger_.warn("{}{} more {} were not told", about_, count, what_);
  }
  if (in_minute_ >= (is_error ? kMostInMinute : kMostWarnings)) {
    ++left_out_;
    return false;
  }
  ++in_minute_;
  return true;
}

void LineLimit::log(spdlog::level::level_enum level, const std::string& line, TimePoint now) {
  const bool is_admitted = admits(now, level >= spdlog::level::err);
  logger_.log(is_admitted ? level : spdlog::level::debug, "{}", line);
}

}  // namespace ipvsproxier::loop
