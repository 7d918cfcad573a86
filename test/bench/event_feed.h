#pragma once

// EventFeed: the daemon's way from the bytes of a watch to the kernel's answer, in one process: a
// reflector of EndpointSlices on the caller's thread, a mailbox, the sync thread. The bytes are
// those that the test API server would send; there is neither server nor socket. Failures throw
// std::runtime_error.

#include <memory>
#include <string>
#include <vector>

#include "proxier/loop/mailbox.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/status.h"
#include "proxier/sync/publisher.h"
#include "proxier/sync/sync_thread.h"
#include "proxier/watch/reflector.h"
#include "proxier/watch/watch_log.h"
#include "test/bench/kernel_world.h"
#include "test/bench/watched_ipvs.h"
#include "test/fakes/manual_timers.h"
#include "test/fakes/scripted_transport.h"
#include "test/support/api_server/running_watch.h"
#include "test/support/api_server/store.h"

namespace ipvsproxier::bench {

// When an event was handed to the reflector, and what became of it, as now_ms().
struct Way {
  double sent = 0;
  double decoded = 0;       // and put into the mailbox
  Watched kernel;           // reached and answered
  std::uint64_t asked = 0;  // of the kernel, when it was put there
  const char* doing = "";   // what the sync thread asked the kernel for when it was put there
};

class EventFeed {
 public:
  // Programs the cluster of `size`, and `service` with `slices` besides.
  EventFeed(KernelWorld& world, const Size& size, const api::Service* service = nullptr,
            const std::vector<api::EndpointSlice>& slices = {});
  ~EventFeed();
  EventFeed(const EventFeed&) = delete;
  EventFeed& operator=(const EventFeed&) = delete;

  // The event that a server would send for this slice, as it is now; `revision` is in its metadata.
  std::string event_of(const api::EndpointSlice& slice, int revision = 0);
  // Hands it over.
  void send(const std::string& event);
  // Hands it over and waits until the kernel has answered an operation on this real server.
  Way send(const std::string& event, const netlink::RealServerKey& server);

 private:
  void take(model::Changes changes);
  std::string take_bytes();

  WatchedIpvsTable ipvs_;
  Way way_;  // of the last event
  spdlog::logger logger_{"bench"};
  sync::Reconciler reconciler_;
  loop::Mailbox<sync::SyncInput> mail_;
  serve::Status status_;
  serve::Metrics metrics_;
  sync::Publisher publisher_;
  test::Store store_;
  std::unique_ptr<test::RunningWatch> watch_;
  test::ScriptedTransport transport_;
  test::ManualTimers timers_;
  watch::WatchLog watch_log_{timers_, logger_};
  watch::Reflector reflector_;
  std::unique_ptr<sync::SyncThread> thread_;
};

}  // namespace ipvsproxier::bench
