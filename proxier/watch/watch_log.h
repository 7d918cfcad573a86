#pragma once

// WatchLog: the log lines about watches that fail and recover. Failures of several watches at the
// same moment (their connection broke) share one line. A cause that was logged for a resource is
// logged again for it after five minutes, with the number of occurrences since. Main thread only.
//
//   warning endpointslices, nodes, services: https://10.96.0.1:443: Connection reset by peer; again
//   in 0.8 s
//   info endpointslices, nodes, services: followed again

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <spdlog/logger.h>

#include "proxier/loop/timers.h"

namespace ipvsproxier::watch {

class WatchLog {
 public:
  // Both must outlive this. Its deadlines are named "watch log ...".
  WatchLog(loop::Timers& timers, spdlog::logger& logger);
  WatchLog(const WatchLog&) = delete;
  WatchLog& operator=(const WatchLog&) = delete;
  ~WatchLog() { tell(); }

  // `resource` stopped being followed, or still is not; its next request comes after `delay`.
  void failed(const std::string& resource, const std::string& cause,
              std::chrono::milliseconds delay);
  void recovered(const std::string& resource);
  // Logs the waiting lines now.
  void tell();

 private:
  // Of one cause, not logged yet.
  struct Failure {
    std::set<std::string> resources;
    std::chrono::milliseconds delay{0};  // the longest one
  };
  struct Told {
    loop::Timers::Clock::time_point when;
    std::size_t untold = 0;  // occurrences since then
  };

  void tell_failures();
  void tell_recoveries();

  loop::Timers& timers_;
  spdlog::logger& logger_;
  std::map<std::string, Failure> failures_;                   // by cause; not logged yet
  std::set<std::string> recoveries_;                          // not logged yet
  std::set<std::string> failing_;                             // resources whose failure was logged
  std::map<std::pair<std::string, std::string>, Told> told_;  // by cause and resource
};

}  // namespace ipvsproxier::watch
