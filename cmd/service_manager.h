#pragma once

// ServiceManager: tells systemd how the daemon is (sd_notify(3)): ready after the first complete
// sync, in a line for `systemctl status` whether the kernel is in step, that it is alive where the
// unit has a WatchdogSec, and that it ends. Without systemd (NOTIFY_SOCKET) nobody is told.
// The main thread's.

#include <chrono>
#include <optional>
#include <string>

#include "proxier/loop/timers.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::cmd {

class ServiceManager {
 public:
  // Begins; both outlive this.
  ServiceManager(loop::Timers& timers, const serve::Status& status);
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager();

 private:
  void look();

  loop::Timers& timers_;
  const serve::Status& status_;
  std::optional<std::chrono::microseconds> watchdog_;  // systemd must hear of us as often
  bool ready_ = false;
  std::string told_;  // the last line for people
};

}  // namespace ipvsproxier::cmd
