#include "proxier/sync/sync_log.h"

#include <chrono>

namespace ipvsproxier::sync {

namespace {

constexpr std::chrono::minutes kTellAgain{10};
constexpr std::size_t kNamed = 50;  // things in one line

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i)
    list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamed) list += " and " + std::to_string(names.size() - kNamed) + " more";
  return list;
}

// Operations that failed for the same reason share a line.
std::map<std::string, std::vector<std::string>> by_reason(const std::vector<Failure>& failures) {
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& failure : failures)
    result[netlink::to_string(failure.error)].push_back(failure.what);
  return result;
}

}  // namespace

void SyncLog::tell(spdlog::level::level_enum level, const std::string& line,
                   const std::string& next, TimePoint now) {
  const auto [it, is_new] = told_.try_emplace(line, Told{now});
  it->second.now = true;
  if (!is_new && now - it->second.at < kTellAgain) level = spdlog::level::debug;
  if (level != spdlog::level::debug) it->second.at = now;
  logger_.log(level, "{}{}{}", line, next.empty() ? "" : "; ", next);
}

std::vector<std::string> SyncLog::standing() const {
  std::vector<std::string> lines;
  for (const auto& [line, told] : told_) lines.push_back(line);
  return lines;
}

void SyncLog::tell(const SyncProblems& problems, bool all, const std::string& next, TimePoint now) {
  for (auto& [line, told] : told_) told.now = false;
  for (const auto& problem : problems.problems)
    tell(problem.severity == api::Severity::error ? spdlog::level::err : spdlog::level::warn,
         api::to_string(problem), "", now);
  for (const auto& [reason, names] : by_reason(problems.warnings))
    tell(spdlog::level::warn, list_of(names) + ": " + reason, "going on without", now);
  for (const auto& [reason, names] : by_reason(problems.failures))
    tell(spdlog::level::err, reason + ": not done: " + list_of(names), next, now);
  if (!problems.held.empty())
    tell(spdlog::level::err, "not tried because of the failures above: " + list_of(problems.held),
         next, now);
  std::erase_if(told_, [&](const auto& entry) {
    return !entry.second.now && (all || now - entry.second.at >= kTellAgain);
  });
}

}  // namespace ipvsproxier::sync
