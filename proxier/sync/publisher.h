#pragma once

// Publisher: reports the work of the sync thread to status and metrics (serve/status.h,
// serve/metrics.h). Sync thread only.

#include <chrono>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/status.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

class Publisher {
 public:
  // `families` are the proxied ones. Changes of the cluster before construction are not measured.
  // Status and metrics must outlive this.
  Publisher(serve::Status& status, serve::Metrics& metrics, std::vector<netlink::Family> families)
      : status_(status),
        metrics_(metrics),
        families_(std::move(families)),
        started_(status.now().wall) {}

  // The loop of the sync thread starts.
  void started();
  // A run of the reconciler begins and ends; `taken`: the run handles all changes reported so far.
  // All parts of one reading of the kernel count as one sync, at the last part.
  void began(bool taken);
  void ended(SyncReport report, std::chrono::steady_clock::duration took);

 private:
  void count_requests(const SyncReport& report);
  void tell_families(const SyncReport& report, serve::Metrics::Time now);
  void tell_aside(netlink::Family family, bool aside);

  serve::Status& status_;
  serve::Metrics& metrics_;
  const std::vector<netlink::Family> families_;
  serve::Metrics::Time started_;
  std::chrono::steady_clock::duration reading_{};  // duration of the current reading so far
};

}  // namespace ipvsproxier::sync
