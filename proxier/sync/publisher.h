#pragma once

// Publisher: what the sync thread does -> status and metrics (serve/status.h, serve/metrics.h). The
// sync thread's.

#include <chrono>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/status.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

class Publisher {
 public:
  // `families` are those that are proxied. What the cluster changed before now was not for us to
  // program in time. Status and metrics outlive this.
  Publisher(serve::Status& status, serve::Metrics& metrics, std::vector<netlink::Family> families)
      : status_(status),
        metrics_(metrics),
        families_(std::move(families)),
        started_(status.now().wall) {}

  // The thread's loop starts.
  void started();
  // A run begins; with `taken`, all changes that were told before are taken up. It did what the
  // report says. The parts of a reading back count as one sync, when the last one was read.
  void began(bool taken);
  void ended(SyncReport report, std::chrono::steady_clock::duration took);

 private:
  void count_requests(const SyncReport& report);
  void tell_families(const SyncReport& report, serve::Metrics::Time now);

  serve::Status& status_;
  serve::Metrics& metrics_;
  const std::vector<netlink::Family> families_;
  serve::Metrics::Time started_;
  std::chrono::steady_clock::duration reading_{};  // so far
};

}  // namespace ipvsproxier::sync
