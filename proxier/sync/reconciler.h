#pragma once

// Reconciler: makes the kernel match the cluster and keeps it so. Sync thread only. Logs.
//
//   waiting for the first lists -> whole (read the kernel, plan, difference of everything)
//     -> following: plan and difference of what changed, on a mirror of the kernel
//     -> reading back, every sync period and soon after any surprising answer: part by part, with
//        changes served in between; a part that is not as the mirror says is put right at once
//
// IPVS, sets and rules send no notifications, so reading back is the only way to see what others
// changed; what they did to our links and routes is told by LinkEvents.
//
// The clock is the caller's: run() does what is due at `now`, due() says when to come again.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "netlink/result.h"
#include "proxier/plan/planner.h"
#include "proxier/serve/status.h"
#include "proxier/sync/applier.h"
#include "proxier/sync/drain.h"
#include "proxier/sync/drift.h"
#include "proxier/sync/health_reports.h"
#include "proxier/sync/holding.h"
#include "proxier/sync/host_setup.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/kernel_state.h"
#include "proxier/sync/question.h"
#include "proxier/sync/read_back.h"
#include "proxier/sync/refusals.h"
#include "proxier/sync/retries.h"
#include "proxier/sync/stale_flows.h"
#include "proxier/sync/sync_input.h"
#include "proxier/sync/sync_log.h"
#include "proxier/sync/sync_report.h"
#include "proxier/sync/take_over.h"
#include "proxier/sync/trigger_times.h"

namespace ipvsproxier::sync {

struct ReconcilerSettings {
  std::string node_name;
  std::optional<netlink::IpAddress> bind_address;  // takes the place of the Node's IP
  plan::PlannerOptions options;
  std::string config_origin;  // the configuration file, to name where the scheduler comes from
  std::chrono::milliseconds sync_period{30'000};  // between two readings of the whole kernel
  DrainTimes drain;
  std::optional<HostSetup> host;            // sysctls and timeouts to keep; nullopt: none
  RemoveNftLeftovers remove_nft_leftovers;  // of kube-proxy's nftables mode
  // Called by the sync thread when the first lists ask for so much less than the kernel holds that
  // they are to be repeated before it goes (holding.h). Empty: they are believed.
  std::function<void()> doubt_first_lists;
  // Called by the sync thread after each part of a long piece of work.
  std::function<void()> progress = [] {};
};

class Reconciler {
 public:
  Reconciler(Kernel kernel, ReconcilerSettings settings, spdlog::logger& logger);

  // Folds in what happened. Writes nothing yet.
  void take(SyncInput input);

  // The first lists are there: run() works.
  bool listed() const { return listed_; }

  // Does what is due: changes, then at most one part of a reading back and one step of a drain
  // pass. Nothing before the first lists are there (Changes::complete is set). Ends after the
  // current phase when `stop` is requested; what is left then is left to the next start.
  SyncReport run(TimePoint now, const std::stop_token& stop = {});

  // Answers what it is asked, now.
  void answer(const std::vector<Question>& questions, TimePoint now) const;

  // When run() has something to do without further input; at once while the kernel is read.
  TimePoint due() const;
  // It is read back, or counts of connections are, and there are parts left.
  bool reading() const { return read_back_.running() || drain_.running(); }

  // For a run without following: everything at once, now. What failed is tried again from a fresh
  // reading as long as that helps, three times in all.
  SyncReport run_to_end(TimePoint now);

 private:
  struct Pass : SyncProblems {
    explicit Pass(std::stop_token token = {}) : stop(std::move(token)) {}
    std::stop_token stop;
    Written written;
    Written failed;
    std::size_t repairs = 0;
    std::size_t sysctls = 0;
    std::size_t flows = 0;
    std::set<netlink::Family> rules_failed;
    std::map<netlink::Family, Purge> purges;
    bool whole = false;    // everything was looked at
    bool suspect = false;  // the kernel is not as it was believed to be
  };

  void sync_whole(TimePoint now, Pass& pass);
  void follow(TimePoint now, Pass& pass);
  void sync_changes(TimePoint now, Pass& pass, bool look_at_links);
  void begin_reading();
  void read_part(TimePoint now, Pass& pass);
  void end_reading(TimePoint now, Pass& pass);
  void drain(TimePoint now, Pass& pass);
  void purge_flows(TimePoint now, Pass& pass);
  void take_over(TimePoint now, const SyncReport& report);
  bool has_all(netlink::Family family) const;
  bool any_serves(netlink::Family family) const;
  bool is_well(netlink::Family family, const Pass& pass) const;
  SyncReport finish(TimePoint now, Pass& pass);
  Requests new_requests();
  void note_standing(const SyncReport& report, std::chrono::nanoseconds took);
  void log_whats_left(TimePoint now, const Pass& pass, bool settled);
  TimePoint due_by_time() const;

  void keep_host(Pass& pass);
  bool ensure_dummy(Pass& pass);
  void remove_copy(Pass& pass);
  std::optional<BoundAddresses> refresh_node(Pass& pass);
  plan::NodeInfo known_node(std::vector<netlink::InterfaceAddress> addresses);
  void tell_node_ips();
  plan::Scope repair_links(Pass& pass, bool look);
  plan::Scope take_addresses(plan::ActualState found, const std::set<netlink::IpAddress>& told_lost,
                             Pass& pass);
  std::size_t tell_lost(const plan::AddressSet& differing, const plan::Bindings& found,
                        const std::set<netlink::IpAddress>& told_lost);
  plan::Scope completed(plan::Scope scope) const;
  void assume_lost_answers();
  void apply(const plan::Scope& scope, TimePoint now, Pass& pass);
  Outcome execute(const plan::Transaction& transaction, Pass& pass);
  void note_drains(const plan::ServiceKeySet& services, TimePoint now);

  Kernel kernel_;
  ReconcilerSettings settings_;
  spdlog::logger& logger_;
  SyncLog log_;
  Drift drift_;

  model::ClusterState cluster_;
  std::set<api::NamespacedName> touched_;  // Services to plan again
  bool node_touched_ = false;
  plan::NodeIps node_ips_;
  std::string told_node_ips_;  // what the log says of those that are missing
  netlink::LinkEvents link_events_;
  plan::Planner planner_;
  Holding holding_;
  plan::ActualState mirror_;  // what the kernel holds, as far as we know
  Perhaps perhaps_;           // what answers were lost about

  bool listed_ = false;        // the first lists are there
  bool known_ = false;         // mirror_ was read
  bool look_at_all_ = false;   // compare everything, from the mirror
  bool asked_ = false;         // something was taken in since the last run
  bool host_failed_ = false;   // keep_host(), the last time
  bool links_failed_ = false;  // reading them, the last time
  bool flows_noted_ = false;   // those that a process before us may have left
  TimePoint whole_due_{};
  TimePoint first_whole_{};
  unsigned surprises_ = 0;  // readings in a row with one, or after one
  bool surprised_ = false;  // since the last reading began
  ReadBack read_back_;
  std::vector<Failure> unread_;  // by it, so far
  bool new_kinds_ = false;       // it found a kind of thing of which nothing was known
  Retries retries_;
  Refusals refusals_;
  HealthReports health_;
  TriggerTimes triggers_;
  Requests told_requests_;  // by reports before
  SyncStanding standing_;   // but for what answer() adds
  Drain drain_;
  LastChanges changes_;
  StaleFlows flows_;
  TakeOver take_over_;
};

}  // namespace ipvsproxier::sync
