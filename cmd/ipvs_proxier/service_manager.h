#pragma once

// ServiceManager: reports the daemon's state to systemd (sd_notify(3)): ready after the first
// complete sync, a line for `systemctl status` that says whether the kernel is in step, liveness if
// the unit has a WatchdogSec, and the end. Does nothing without systemd (NOTIFY_SOCKET). Main
// thread only.

#include <chrono>
#include <optional>
#include <string>

#include "proxier/loop/timers.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::cmd {

class ServiceManager {
 public:
  // Starts reporting; both arguments must outlive this.
  ServiceManager(loop::Timers& timers, const serve::Status& status);
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager();

 private:
  void look();

  loop::Timers& timers_;
  const serve::Status& status_;
  std::optional<std::chrono::microseconds> watchdog_;  // how often systemd expects a sign of life
  bool ready_ = false;
  std::string told_;  // last status line
};

}  // namespace ipvsproxier::cmd
