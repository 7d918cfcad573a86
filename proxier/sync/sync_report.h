#pragma once

// SyncReport: what one run of the reconciler did, and the resulting state of the kernel. A value.

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
  std::map<netlink::Family, Purge> purges;  // of stale flows, for families that were looked at
  std::map<netlink::Family, plan::LocalLack> lack;  // of every family, current
  std::vector<model::Trigger> programmed;           // changes that are now in the kernel
  std::size_t sysctls = 0;                          // sysctls and timeouts that were set
  std::size_t flows = 0;                            // stale flows removed
  std::size_t problems = 0;                         // errors in the objects
  std::size_t failures = 0;  // failed and held operations that are still outstanding
  std::size_t refused = 0;   // current refusals because of an object
  // Services that lack something; nullopt unless the whole kernel was compared.
  std::optional<std::size_t> lacking;
  std::map<netlink::Family, RefusedCounts> refusals;  // of every family, current
  std::size_t repairs = 0;                            // of changes by other programs
  std::size_t draining = 0;                           // real servers, current
  // Virtual and real servers that are kept because the first lists are in doubt.
  std::size_t doubted = 0;
  bool reading = false;  // only a part of the kernel was read, and it agreed with the mirror
  bool figures = false;  // a part of the traffic figures was read
  bool whole = false;    // the whole kernel was compared
  // Services wait for their turns, or a turn for its end: run() has more work at once.
  bool unfinished = false;
  // Families whose kernel state is as desired, except for refusals because of an object: nothing
  // else waits for a retry.
  std::set<netlink::Family> well;
  // Families that are not well for another reason than that changes wait for their turns.
  std::set<netlink::Family> ill;
  // Families in `ill` that the kernel refuses as a whole, while the Node has addresses of the other
  // one alone: they do not count for /healthz.
  std::set<netlink::Family> aside;
  bool settled = false;            // all families are in `well`
  bool flows_unreadable = false;   // stale flows stay: the kernel does not list flows
  std::size_t firewall_drops = 0;  // chains of others that drop packets of Services
  serve::ServiceHealthChanges health;

  bool complete() const { return problems == 0 && failures == 0 && refused == 0; }
  bool empty() const;  // nothing was written, and nothing is wrong except refusals
};

// "ipvs 6, links 1, ..., failures 0"; problems count as failures.
std::string to_string(const SyncReport& report);

}  // namespace ipvsproxier::sync
