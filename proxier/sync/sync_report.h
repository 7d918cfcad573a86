#pragma once

// SyncReport: what one run of the reconciler did, and where that leaves the kernel. A value.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/planner.h"
#include "proxier/serve/status.h"
#include "proxier/sync/applier.h"
#include "proxier/sync/refusals.h"
#include "proxier/sync/stale_flows.h"

namespace ipvsproxier::sync {

// Requests to the kernel, by table.
struct Requests {
  std::uint64_t ipvs = 0;
  std::uint64_t links = 0;
  std::uint64_t sets = 0;
  std::uint64_t conntrack = 0;
};

struct SyncReport {
  Written written;
  Written failed;
  Requests requests;  // since the last report
  std::set<netlink::Family> rules_failed;
  std::map<netlink::Family, Purge> purges;          // of stale UDP flows, where there was a look
  std::map<netlink::Family, plan::LocalLack> lack;  // of every family, now
  std::vector<model::Trigger> programmed;           // changes that the kernel has now
  std::size_t sysctls = 0;                          // and timeouts that were set
  std::size_t flows = 0;                            // stale UDP flows removed
  std::size_t problems = 0;                         // errors in the objects
  std::size_t failures = 0;  // failed and held operations that are still outstanding
  std::size_t refused = 0;   // things that the kernel refuses for what they are, now
  std::map<netlink::Family, RefusedCounts> refusals;  // of every family, now
  std::size_t repairs = 0;                            // of what others did to the kernel
  std::size_t draining = 0;                           // real servers, now
  std::size_t doubted = 0;  // virtual and real servers that the first lists do not ask for
  bool reading = false;     // no more than a part of the kernel was read, and it was as believed
  bool whole = false;       // the whole kernel was looked at
  // Families of which the kernel is what was asked for, but for what it refuses for what it is:
  // nothing else waits for another try.
  std::set<netlink::Family> well;
  bool settled = false;           // all are
  bool flows_unreadable = false;  // the stale ones stay: the kernel does not list any
  serve::ServiceHealthChanges health;

  bool complete() const { return problems == 0 && failures == 0 && refused == 0; }
  bool empty() const;  // nothing written, nothing wrong but what is refused
};

// "ipvs 6, links 1, ..., failures 0", problems counted among the failures.
std::string to_string(const SyncReport& report);

}  // namespace ipvsproxier::sync
