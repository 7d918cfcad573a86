#include "proxier/loop/line_limit.h"

#include <chrono>
#include <utility>

namespace ipvsproxier::loop {

LineLimit::LineLimit(spdlog::logger& logger, std::string about, std::string what)
    : logger_(logger), about_(std::move(about)), what_(std::move(what)) {}

bool LineLimit::has_room(std::size_t most, std::string_view owner) const {
  if (in_minute_ >= most) return false;
  if (owner.empty()) return true;
  const auto it = of_owners_.find(owner);
  const auto of_owner = it == of_owners_.end() ? 0 : it->second;
  const auto of_others = in_minute_ - of_owner;
  return 2 * of_owner < most - of_others;
}

bool LineLimit::admits(TimePoint now, bool is_error, std::string_view owner) {
  if (in_minute_ == 0 || now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    in_minute_ = 0;
    of_owners_.clear();
    if (const auto count = std::exchange(left_out_, 0); count > 0)
      logger_.warn("{}{} more {} were left out of this log", about_, count, what_);
  }
  if (!has_room(is_error ? kMostInMinute : kMostWarnings, owner)) {
    ++left_out_;
    return false;
  }
  ++in_minute_;
  if (!owner.empty()) ++of_owners_[std::string(owner)];
  return true;
}

void LineLimit::log(spdlog::level::level_enum level, const std::string& line, TimePoint now,
                    std::string_view owner) {
  const bool is_admitted = admits(now, level >= spdlog::level::err, owner);
  logger_.log(is_admitted ? level : spdlog::level::debug, "{}", line);
}

}  // namespace ipvsproxier::loop
