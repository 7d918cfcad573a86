#include "cmd/ipvs_proxier/service_manager.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ipvsproxier::cmd {

namespace {

constexpr char kName[] = "service manager";
// A unit that waits for this one waits at most this much longer than needed.
constexpr std::chrono::microseconds kLook = std::chrono::milliseconds(500);
constexpr std::chrono::microseconds kLookWhenReady = std::chrono::seconds(5);

// A failure is ignored: systemd may not listen any more.
void tell(const std::string& state) {
  static_cast<void>(::sd_notify(0, state.c_str()));
}

std::string line_for_people(const serve::Status& status, bool was_ready) {
  if (!was_ready) return "the first sync is not complete";
  if (!status.liveness().sync) return "the sync thread does not move";
  return status.families_healthy() ? "the kernel is in step with the cluster"
                                   : "the kernel is behind the cluster; see the log";
}

}  // namespace

ServiceManager::ServiceManager(loop::Timers& timers, const serve::Status& status)
    : timers_(timers), status_(status) {
  std::uint64_t microseconds = 0;
  if (::sd_watchdog_enabled(0, &microseconds) > 0)
    watchdog_ = std::chrono::microseconds(microseconds);
  look();
}

ServiceManager::~ServiceManager() {
  timers_.cancel(kName);
  tell("STOPPING=1\nSTATUS=ending; the kernel stays as it is");
}

void ServiceManager::look() {
  std::string news;
  if (!ready_ && status_.families_healthy()) {
    ready_ = true;
    news += "READY=1\n";
  }
  const auto live = status_.liveness();
  if (watchdog_ && live.main && live.sync) news += "WATCHDOG=1\n";
  auto line = line_for_people(status_, ready_);
  if (line != std::exchange(told_, line)) news += "STATUS=" + line;
  if (!news.empty()) tell(news);
  auto pause = ready_ ? kLookWhenReady : kLook;
  if (watchdog_) pause = std::min(pause, *watchdog_ / 2);
  timers_.at(kName, timers_.now() + pause, [this] { look(); });
}

}  // namespace ipvsproxier::cmd
