#pragma once

// SyncThread: runs a Reconciler on a thread of its own, fed through a mailbox. Between two syncs
// that changes ask for at least `min_period` passes; what happens meanwhile is merged into one.

#include <chrono>
#include <thread>

#include "proxier/loop/mailbox.h"
#include "proxier/sync/publisher.h"
#include "proxier/sync/reconciler.h"
#include "proxier/sync/sync_input.h"

namespace ipvsproxier::sync {

class SyncThread {
 public:
  // All outlive this. From now on nobody else uses `reconciler` and `publisher`.
  SyncThread(Reconciler& reconciler, loop::Mailbox<SyncInput>& mailbox,
             std::chrono::nanoseconds min_period, Publisher& publisher);
  SyncThread(const SyncThread&) = delete;
  SyncThread& operator=(const SyncThread&) = delete;
  ~SyncThread() =
      default;  // stops after the current phase, waits for it; the kernel stays as it is

 private:
  std::jthread thread_;
};

}  // namespace ipvsproxier::sync
