#include "proxier/sync/sync_log.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "proxier/sync/sync_report.h"

namespace ipvsproxier::sync {

namespace {

constexpr std::chrono::minutes kTellAgain{10};
constexpr std::size_t kNamed = 50;  // entries named in one line

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i)
    list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamed) list += " and " + std::to_string(names.size() - kNamed) + " more";
  return list;
}

// Failures with the same reason share a line.
std::map<std::string, std::vector<std::string>> by_reason(const std::vector<Failure>& failures) {
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& failure : failures)
    result[netlink::to_string(failure.error)].push_back(failure.what);
  return result;
}

}  // namespace

bool SyncLog::is_told(const std::string& line, TimePoint now) const {
  const auto it = told_.find(line);
  return it != told_.end() && now - it->second.at < kTellAgain;
}

void SyncLog::tell(loop::LineLimit& limit, spdlog::level::level_enum level, const std::string& line,
                   const std::string& next, TimePoint now, std::string_view owner) {
  if (is_told(line, now) || !limit.admits(now, level == spdlog::level::err, owner))
    level = spdlog::level::debug;
  const auto it = told_.try_emplace(line, Told{now}).first;
  it->second.now = true;
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
  using spdlog::level::err;
  using spdlog::level::warn;
  for (const auto& problem : problems.problems)
    tell(objects_, problem.severity == api::Severity::error ? err : warn, api::to_string(problem),
         "", now, api::namespace_of(problem));
  for (const auto& [reason, names] : by_reason(problems.warnings))
    tell(failures_, warn, list_of(names) + ": " + reason, "going on without", now);
  for (const auto& [reason, names] : by_reason(problems.failures))
    tell(failures_, err, reason + ": not done: " + list_of(names), next, now);
  if (!problems.held.empty())
    tell(failures_, err, "not tried because of the failures above: " + list_of(problems.held), next,
         now);
  std::erase_if(told_, [&](const auto& entry) {
    return !entry.second.now && (all || now - entry.second.at >= kTellAgain);
  });
}

void SyncLog::tell(const SyncReport& report, std::chrono::nanoseconds took, TimePoint now) {
  const bool is_told = !report.empty() && syncs_.admits(now, true);
  logger_.log(is_told ? spdlog::level::info : spdlog::level::debug, "synced: {}, took {} ms",
              to_string(report),
              std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
}

bool SyncReport::empty() const {
  return problems == 0 && failures == 0 && written == Written{} && sysctls == 0 && flows == 0;
}

std::string to_string(const SyncReport& report) {
  const auto& written = report.written;
  auto text = fmt::format(
      "ipvs {}, links {}, addresses {}, elements {}, sets {}, rule tables {}, sysctls {}, flows "
      "{}, failures {}",
      written.ipvs, written.links, written.addresses, written.elements, written.sets,
      written.rule_tables, report.sysctls, report.flows, report.failures + report.problems);
  return report.refused == 0 ? text : text + fmt::format(", refused {}", report.refused);
}

}  // namespace ipvsproxier::sync
