#pragma once

// SyncThread: runs a Reconciler on its own thread, fed by a mailbox. At least `min_period` passes
// between two syncs that changes cause; changes in between are merged.

#include <chrono>
#include <thread>

#include "proxier/loop/mailbox.h"
#include "proxier/sync/publisher.h"
#include "proxier/sync/reconciler.h"
#include "proxier/sync/sync_input.h"

namespace ipvsproxier::sync {

class SyncThread {
 public:
  // All arguments must outlive this. Only this thread uses `reconciler` and `publisher` from now
  // on.
  SyncThread(Reconciler& reconciler, loop::Mailbox<SyncInput>& mailbox,
             std::chrono::nanoseconds min_period, Publisher& publisher);
  SyncThread(const SyncThread&) = delete;
  SyncThread& operator=(const SyncThread&) = delete;
  ~SyncThread() =
      default;  // stops after the current phase and waits for it; leaves the kernel as it is

 private:
  std::jthread thread_;
};

}  // namespace ipvsproxier::sync
