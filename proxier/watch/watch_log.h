#pragma once

// WatchLog: the lines about watches that fail and are followed again. What several watches meet at
// the same moment (their connection broke) is one line; a cause that was told of one is told
// again of it after five minutes, with how often it was met meanwhile. The main thread's.
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
  // Both outlive it. Its deadlines are named "watch log ...".
  WatchLog(loop::Timers& timers, spdlog::logger& logger);
  WatchLog(const WatchLog&) = delete;
  WatchLog& operator=(const WatchLog&) = delete;
  ~WatchLog() { tell(); }

  // `resource` was followed and is not, or still is not; its next request comes after `delay`.
  void failed(const std::string& resource, const std::string& cause,
              std::chrono::milliseconds delay);
  void recovered(const std::string& resource);
  // What waits to be told, now.
  void tell();

 private:
  // Of one cause.
  struct Failure {
    std::set<std::string> resources;
    std::chrono::milliseconds delay{0};  // the longest
  };
  struct Told {
    loop::Timers::Clock::time_point when;
    std::size_t untold = 0;  // since then
  };

  void tell_failures();
  void tell_recoveries();

  loop::Timers& timers_;
  spdlog::logger& logger_;
  std::map<std::string, Failure> failures_;                   // by cause; not told yet
  std::set<std::string> recoveries_;                          // not told yet
  std::set<std::string> failing_;                             // as was told
  std::map<std::pair<std::string, std::string>, Told> told_;  // by cause and resource
};

}  // namespace ipvsproxier::watch
