#pragma once

// ServerState: everything that the connections of the test API server and the tests share, under
// one lock. `changed` is notified after each change of it.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "proxier/loop/mailbox.h"
#include "test/support/api_server/api_server.h"
#include "test/support/api_server/events.h"
#include "test/support/api_server/running_watch.h"
#include "test/support/api_server/store.h"

namespace ipvsproxier::test {

struct ServerState {
  explicit ServerState(ServerOptions given) : options(std::move(given)), random(options.seed) {}

  loop::Mutex mutex;
  std::condition_variable_any changed;

  ServerOptions options IPVSPROXIER_THREADS(guarded_by(mutex));
  std::mt19937 random IPVSPROXIER_THREADS(guarded_by(mutex));
  Store store IPVSPROXIER_THREADS(guarded_by(mutex));
  std::map<Resource, Faults> faults IPVSPROXIER_THREADS(guarded_by(mutex));
  Faults event_faults IPVSPROXIER_THREADS(guarded_by(mutex));
  std::deque<LoggedRequest> log IPVSPROXIER_THREADS(guarded_by(mutex));
  std::size_t log_cleared IPVSPROXIER_THREADS(guarded_by(mutex)) = 0;
  EventStore events IPVSPROXIER_THREADS(guarded_by(mutex));
  std::set<RunningWatch*> watches IPVSPROXIER_THREADS(guarded_by(mutex));
  std::set<int> sockets IPVSPROXIER_THREADS(guarded_by(mutex));  // of open connections
  bool vanished IPVSPROXIER_THREADS(guarded_by(mutex)) = false;
  bool stopping IPVSPROXIER_THREADS(guarded_by(mutex)) = false;

  Faults& faults_of(std::optional<Resource> resource)
      IPVSPROXIER_THREADS(requires_capability(mutex)) {
    return resource ? faults[*resource] : event_faults;
  }
};

}  // namespace ipvsproxier::test
