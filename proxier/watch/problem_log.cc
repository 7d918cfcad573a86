#include "proxier/watch/problem_log.h"

#include <utility>

namespace ipvsproxier::watch {

ProblemLog::ProblemLog(std::string resource, spdlog::logger& log)
    : resource_(std::move(resource)), log_(log), limit_(log, resource_ + ": ") {}

void ProblemLog::tell(const api::Problems& problems, TimePoint now) {
  for (const auto& problem : problems) tell(problem, now);
}

void ProblemLog::tell(const api::Problem& problem, TimePoint now) {
  auto text = api::to_string(problem);
  if (told_.contains(text)) return;
  const bool is_error = problem.severity == api::Severity::error;
  if (!limit_.admits(now, is_error, api::namespace_of(problem))) return;
  log_.warn("{}: {}{}", resource_, text, is_error ? "; it stays as it was" : "");
  if (told_.size() >= kMostRemembered) told_.clear();
  told_.insert(std::move(text));
}

}  // namespace ipvsproxier::watch
