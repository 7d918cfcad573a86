#pragma once

// SyncInput: events since the sync thread last looked, and questions, which it answers between two
// syncs from its own data; answers must be short. Merged in a mailbox while the thread is busy.

#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/links/link_types.h"
#include "proxier/model/changes.h"
#include "proxier/model/cluster_state.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/drain.h"
#include "proxier/sync/last_changes.h"
#include "proxier/sync/refusals.h"

namespace ipvsproxier::sync {

// The state of the sync thread. Times are wall-clock times; nullopt: not yet.
struct SyncStanding {
  using Time = std::chrono::system_clock::time_point;

  bool listed = false;   // the first lists of the cluster have arrived
  bool known = false;    // the kernel was read
  bool settled = false;  // the kernel has everything that the cluster asks for and that it accepts
  std::optional<Time> last_sync;          // the last sync that changed something or failed
  std::chrono::nanoseconds last_took{0};  // duration of that sync
  // Last time at which the whole kernel was read and found right. Later changes were acknowledged
  // when they were written, and are compared at the next reading.
  std::optional<Time> agreed;
  std::size_t draining = 0;  // real servers
  std::size_t waiting = 0;   // parts of the kernel state that wait for a retry
  std::optional<std::chrono::milliseconds> next_try;
  std::vector<std::string> wrong;  // current problems, one line each
};

struct Inspection {
  const model::ClusterState& cluster;
  const plan::Planner& planner;
  const plan::ActualState& kernel;  // as far as known: services and addresses may be absent
  const SyncStanding& standing;
  const Drain& drain;
  const LastChanges& changes;
  const Refusals& refusals;
  TimePoint now;  // for `drain`
};

using Question = std::function<void(const Inspection&)>;

struct SyncInput {
  model::Changes changes;
  netlink::LinkEvents links;
  // Others changed what holds our sets and rules, or may have: notifications were lost.
  bool filter_changed = false;
  bool firewall_changed = false;    // others made, changed or removed base chains of nf_tables
  bool flow_rules_changed = false;  // or rules that add to a flowtable
  // The addresses by which the API server is reached, if they changed.
  std::optional<std::set<netlink::IpAddress>> api_server;
  bool figures = false;  // somebody wants the traffic figures of Services
  std::vector<Question> questions;

  bool empty() const {
    return changes.empty() && links.empty() && !filter_changed && !firewall_changed &&
           !flow_rules_changed && !figures && !api_server && questions.empty();
  }
  // A caller is waiting for an answer. Figures wait like changes, which would be taken with them.
  bool urgent() const { return !questions.empty(); }
  void merge(SyncInput later) {
    changes.merge(std::move(later.changes));
    links.merge(std::move(later.links));
    filter_changed = filter_changed || later.filter_changed;
    firewall_changed = firewall_changed || later.firewall_changed;
    flow_rules_changed = flow_rules_changed || later.flow_rules_changed;
    figures = figures || later.figures;
    if (later.api_server) api_server = std::move(later.api_server);
    std::move(later.questions.begin(), later.questions.end(), std::back_inserter(questions));
  }
};

}  // namespace ipvsproxier::sync
