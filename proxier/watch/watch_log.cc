#include "proxier/watch/watch_log.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ipvsproxier::watch {

namespace {

using std::chrono::milliseconds;

constexpr const char* kFailures = "watch log failures";
constexpr const char* kRecoveries = "watch log recoveries";

// Exchanges of one connection end together, and begin again one after the other.
constexpr milliseconds kFailuresTogether{100};
constexpr milliseconds kRecoveriesTogether{1000};
constexpr std::chrono::minutes kTellAgain{5};
constexpr std::size_t kMostTold = 100;

}  // namespace

WatchLog::WatchLog(loop::Timers& timers, spdlog::logger& logger)
    : timers_(timers), logger_(logger) {}

void WatchLog::tell() {
  tell_failures();
  tell_recoveries();
}

void WatchLog::failed(const std::string& resource, const std::string& cause, milliseconds delay) {
  // The recovery was not logged yet, so neither is this failure: the two cancel out.
  if (recoveries_.erase(resource) > 0) failing_.insert(resource);
  const auto told = told_.find({cause, resource});
  if (told != told_.end() && timers_.now() - told->second.when < kTellAgain) {
    ++told->second.untold;
    return;
  }
  if (failures_.empty())
    timers_.at(kFailures, timers_.now() + kFailuresTogether, [this] { tell_failures(); });
  auto& failure = failures_[cause];
  failure.resources.insert(resource);
  failure.delay = std::max(failure.delay, delay);
}

void WatchLog::recovered(const std::string& resource) {
  tell_failures();
  if (failing_.erase(resource) == 0) return;
  if (recoveries_.empty())
    timers_.at(kRecoveries, timers_.now() + kRecoveriesTogether, [this] { tell_recoveries(); });
  recoveries_.insert(resource);
}

void WatchLog::tell_failures() {
  timers_.cancel(kFailures);
  if (told_.size() > kMostTold) told_.clear();
  for (auto& [cause, failure] : std::exchange(failures_, {})) {
    std::size_t untold = 0;
    for (const auto& resource : failure.resources)
      untold += std::exchange(told_[{cause, resource}], {.when = timers_.now()}).untold;
    const auto seconds = static_cast<double>(failure.delay.count()) / 1000;
    logger_.warn("{}: {}; {}{}", fmt::join(failure.resources, ", "), cause,
                 failure.delay.count() == 0 ? std::string("going on at once")
                                            : fmt::format("again in {:.1f} s", seconds),
                 untold == 0 ? "" : fmt::format(" ({} more since it was told)", untold));
    failing_.merge(failure.resources);
  }
}

void WatchLog::tell_recoveries() {
  timers_.cancel(kRecoveries);
  if (recoveries_.empty()) return;
  logger_.info("{}: followed again", fmt::join(recoveries_, ", "));
  recoveries_.clear();
}

}  // namespace ipvsproxier::watch
