#pragma once

// SchedulerChanges: a run changes few schedulers of virtual services that are there. The kernel
// unbinds the old scheduler, waits until no CPU uses it, and binds the new one (ip_vs_edit_service,
// ip_vs_ctl.c; 6.1), which takes some 20 ms with two CPUs. So a Service with thousands of virtual
// services would have all others' changes wait for minutes. The sync thread's.

#include <cstddef>

#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/scope.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::sync {

class SchedulerChanges {
 public:
  static constexpr std::size_t kMostOfService = 16;  // of one Service, in a transaction
  static constexpr std::size_t kMost = 32;           // in a transaction

  // Takes those beyond the limits out of the transaction; they wait.
  void hold(plan::Transaction& transaction, const plan::ActualState& kernel,
            const plan::Planner& planner);

  bool waiting() const { return !waiting_.empty(); }
  // To be compared with the kernel again; nothing waits then.
  plan::Scope take();

 private:
  plan::Scope waiting_;
};

}  // namespace ipvsproxier::sync
