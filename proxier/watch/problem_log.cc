#include "proxier/watch/problem_log.h"

#include <utility>

namespace ipvsproxier::watch {

ProblemLog::ProblemLog(std::string resource, spdlog::logger& log)
    : resource_(std::move(resource)), log_(log) {}

void ProblemLog::tell(const api::Problems& problems, TimePoint now) {
  for (const auto& problem : problems) tell(problem, now);
}

void ProblemLog::tell(const api::Problem& problem, TimePoint now) {
  auto text = api::to_string(problem);
  if (told_.contains(text)) return;
  if (in_minute_ == 0 || now - minute_ >= std::chrono::minutes(1)) begin_minute(now);
  const bool is_error = problem.severity == api::Severity::error;
  // Warnings leave room for errors.
  if (in_minute_ >= (is_error ? kMostInMinute : kMostInMinute / 2)) {
    ++left_out_;
    return;
  }
  ++in_minute_;
  log_.warn("{}: {}{}", resource_, text, is_error ? "; it stays as it was" : "");
  if (told_.size() >= kMostRemembered) told_.clear();
  told_.insert(std::move(text));
}

void ProblemLog::begin_minute(TimePoint now) {
  minute_ = now;
  in_minute_ = 0;
  if (const auto count = std::exchange(left_out_, 0); count > 0)
    log_.warn("{}: {} more problems of objects were not told", resource_, count);
}

}  // namespace ipvsproxier::watch
