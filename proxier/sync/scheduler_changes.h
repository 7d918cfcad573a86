#pragma once

// SchedulerChanges: a run changes few schedulers of virtual services that are there, and Services
// take turns. The kernel unbinds the old scheduler, waits until no CPU uses it, and binds the new
// one (ip_vs_edit_service, ip_vs_ctl.c; 6.1), which takes some 20 ms with two CPUs. So a Service
// with thousands of virtual services would have all others' changes wait for minutes. The sync
// thread's.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>

#include "proxier/api/objects.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/scope.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

class SchedulerChanges {
 public:
  static constexpr std::size_t kMostOfService = 8;  // of one Service, in a run
  static constexpr std::size_t kMost = 16;          // in a run

  // A run begins.
  void begin();
  // Takes those beyond the limits out of the transaction; they wait. All else that such a virtual
  // service shall be comes to pass. Returns the virtual services of operations that were left out.
  plan::ServiceKeySet hold(plan::Transaction& transaction, const plan::ActualState& kernel,
                           const plan::Planner& planner);
  // The run that began at `now` took so long. The next ones that wait come after as long a rest.
  void end(TimePoint now, TimePoint::duration took);

  bool waiting() const { return !waiting_.empty(); }
  std::optional<TimePoint> next() const;
  // To be compared with the kernel again, once the rest is over; nothing waits then.
  plan::Scope due(TimePoint now);

 private:
  // How many more virtual services of each Service may change now, in turn.
  std::map<api::NamespacedName, std::size_t> grant(
      const std::map<api::NamespacedName, std::size_t>& asked);

  std::size_t made_ = 0;  // in this run
  std::map<api::NamespacedName, std::size_t> made_of_;
  api::NamespacedName last_;  // the Service that had the last turn
  TimePoint rests_until_{};
  plan::Scope waiting_;
};

}  // namespace ipvsproxier::sync
