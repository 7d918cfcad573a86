#pragma once

// Reconciler: makes the kernel match the cluster and keeps it that way. Sync thread only. Logs.
//
//   waiting_for_lists  until take() brings complete lists
//   unread             until sync_whole() has read the kernel and compared everything
//   following          plans and compares what changed, using a mirror of the kernel;
//                      until begin_reading(), each sync period and soon after an unexpected answer
//   reading_back       reads part by part, with changes handled in between, and repairs at once a
//                      part that differs from the mirror; until end_reading(): following
//
// IPVS, IP sets and iptables send no notifications, so only reading back reveals changes by other
// programs. Changes to our links and routes are reported by LinkEvents. A change of our table of
// nf_tables (SyncInput::filter_changed) begins a reading, also in the middle of one.
//
// The caller provides the clock: run() does the work due at `now`, due() tells when to call again.

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
#include "proxier/plan/mirror.h"
#include "proxier/plan/planner.h"
#include "proxier/serve/status.h"
#include "proxier/sync/applier.h"
#include "proxier/sync/drain.h"
#include "proxier/sync/drift.h"
#include "proxier/sync/figures_reader.h"
#include "proxier/sync/firewall_watch.h"
#include "proxier/sync/flow_guard.h"
#include "proxier/sync/health_reports.h"
#include "proxier/sync/holding.h"
#include "proxier/sync/host_keeper.h"
#include "proxier/sync/host_setup.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/localhost_loop.h"
#include "proxier/sync/read_back.h"
#include "proxier/sync/reading_schedule.h"
#include "proxier/sync/refusals.h"
#include "proxier/sync/retries.h"
#include "proxier/sync/scheduler_changes.h"
#include "proxier/sync/scheduler_probe.h"
#include "proxier/sync/stale_flows.h"
#include "proxier/sync/sync_input.h"
#include "proxier/sync/sync_log.h"
#include "proxier/sync/sync_report.h"
#include "proxier/sync/take_over.h"
#include "proxier/sync/trash.h"
#include "proxier/sync/trigger_times.h"
#include "proxier/sync/turns.h"
#include "proxier/sync/untracked_probe.h"

namespace ipvsproxier::sync {

struct ReconcilerSettings {
  std::string node_name;
  std::optional<netlink::IpAddress> bind_address;  // replaces the Node's IP
  plan::PlannerOptions options;
  std::string config_origin;  // the configuration file, for messages about the scheduler
  std::chrono::milliseconds sync_period{30'000};  // between two readings of the whole kernel
  DrainTimes drain;
  bool early_flows = true;                  // are cleared (stale_flows.h)
  std::optional<HostSetup> host;            // sysctls and timeouts to keep; nullopt: none
  RemoveNftLeftovers remove_nft_leftovers;  // leftovers of kube-proxy in nf_tables
  // Asked before the first write, and at the end of a take-over. Empty: our rules disturb no
  // translation.
  FindTranslation find_translation;
  FindFirewallWarnings find_firewall_warnings;  // empty: nobody looks
  FindUntrackedPorts find_untracked_ports;      // empty: there are none
  FindFlowRules find_flow_rules;                // empty: there are none
  FlowTable flow_table;
  model::ServiceMetrics service_metrics = model::ServiceMetrics::off;
  PublishFigures publish_figures;  // called on the sync thread
  // Called on the sync thread if the first lists ask for so much less than the kernel holds that
  // they must be repeated before anything is removed (holding.h). Empty: the lists are believed.
  std::function<void()> doubt_first_lists;
  // Called on the sync thread after each part of a long operation.
  std::function<void()> progress = [] {};
  std::size_t most_waiting_removals = Trash::kMostWaiting;  // tests have fewer
  // Whether input waits for take(): then a long turn ends early. Called on the sync thread.
  std::function<bool()> input_waits = [] { return false; };
};

class Reconciler {
 public:
  Reconciler(Kernel kernel, ReconcilerSettings settings, spdlog::logger& logger);

  // Merges the input into the state. Writes nothing yet.
  void take(SyncInput input);

  // The first lists have arrived: run() has work to do.
  bool listed() const { return state_ != State::waiting_for_lists; }

  // Does the due work: one turn of changes (turns.h), then at most one part of a reading and one
  // step of a drain pass. Does nothing before the first lists have arrived (Changes::complete is
  // set). Stops after the current phase if `stop` is requested; the remaining work is left to the
  // next start.
  SyncReport run(TimePoint now, const std::stop_token& stop = {});

  // Calls the questions with the current state.
  void answer(const std::vector<Question>& questions, TimePoint now) const;

  // Traffic figures of Services are wanted: run() reads them in parts, and publishes them.
  void read_figures();

  // When run() has work without further input; at once during a reading of the kernel, and while
  // Services wait for their turns.
  TimePoint due() const;
  // Services wait for their turns: take() may bring input before each run().
  bool has_turns() const { return has_mirror() && (!turns_.empty() || !touched_.empty()); }
  // A reading of the kernel, of connection counts, of flows or of traffic figures is in progress.
  bool reading() const {
    return state_ == State::reading_back || drain_.running() || flows_.running() || reads_figures();
  }

  // For a single run without following: does everything now. Retries failures after a new reading
  // as long as that helps, three runs in all.
  SyncReport run_to_end(TimePoint now);

  // For a dry run: reads the whole kernel and plans everything, and writes nothing. Then answer()
  // tells the desired and the actual state. Returns the parts that could not be read.
  std::vector<Failure> read_and_plan();

 private:
  enum class State : std::uint8_t { waiting_for_lists, unread, following, reading_back };

  // The reading part by part that is in progress.
  struct Reading {
    ReadBack parts;
    std::vector<Failure> failures;  // so far
    bool look_at_all = false;       // a kind of entries was found about which nothing was known
  };

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
    bool whole = false;    // everything was compared
    bool dry = false;      // nothing is written
    bool last = false;     // no other follows
    bool figures = false;  // a part of the traffic figures was read
    bool suspect = false;  // the kernel differs from the mirror, or answers were lost
  };

  // The mirror was read.
  bool has_mirror() const { return state_ == State::following || state_ == State::reading_back; }
  void sync_whole(TimePoint now, Pass& pass);
  std::vector<Failure> read_whole(const BoundAddresses* bound);
  void follow(TimePoint now, Pass& pass);
  void sync_changes(TimePoint now, Pass& pass, bool look_at_links);
  bool others_wait() const { return !turns_.empty() || settings_.input_waits(); }
  void queue_touched();
  void queue(plan::Scope scope, const Turns::Name& others);
  void take_turn(TimePoint now, Pass& pass);
  void begin_reading();
  void read_part(TimePoint now, Pass& pass);
  void end_reading(TimePoint now, Pass& pass);
  void drain(TimePoint now, Pass& pass);
  void purge_flows(TimePoint now, Pass& pass);
  bool only_parts_are_due(TimePoint now) const;
  bool reads_figures() const { return has_mirror() && figures_.running(); }
  FiguresReader::View figures_view(TimePoint now) const;
  void read_figures(TimePoint now, Pass& pass);
  void look_for_translation();
  std::set<netlink::Family> look_for_flow_rules(TimePoint now);
  void look_at_others(TimePoint now, Pass& pass);
  void settle_destinations(netlink::Family family, TimePoint now);
  void take_over(TimePoint now, const SyncReport& report);
  bool has_all(netlink::Family family) const;
  bool any_serves(netlink::Family family) const;
  bool is_well(netlink::Family family, const Pass& pass) const;
  bool is_aside(netlink::Family family) const;
  SyncReport finish(TimePoint now, Pass& pass);
  Requests new_requests();
  void note_standing(const SyncReport& report, std::chrono::nanoseconds took);
  void log_whats_left(TimePoint now, const Pass& pass, bool settled);
  TimePoint due_by_time() const;
  TimePoint due_without_flows() const;

  bool ensure_dummy(Pass& pass);
  void remove_copy(Pass& pass);
  void remove_unwanted_sets(Pass& pass);
  void keep_loop(plan::NodeInfo& node, Pass& pass);
  void leave_loop(Pass& pass);
  std::optional<BoundAddresses> refresh_node(Pass& pass, bool anew = true);
  plan::NodeInfo known_node(std::vector<netlink::InterfaceAddress> addresses);
  void tell_node_ips(TimePoint now);
  plan::Scope repair_links(Pass& pass, bool look);
  plan::Scope take_addresses(plan::ActualState found, const std::set<netlink::IpAddress>& told_lost,
                             Pass& pass);
  std::size_t tell_lost(const plan::AddressSet& differing, const plan::Bindings& found,
                        const std::set<netlink::IpAddress>& told_lost);
  plan::Scope completed(plan::Scope scope) const;
  void add_whole(const std::set<api::NamespacedName>& services, const plan::Scope& waiting,
                 plan::Scope& scope) const;
  std::vector<netlink::VirtualServiceKey> unbound_services(const netlink::IpAddress& address) const;
  plan::Scope with_unbound(plan::Scope due) const;
  // Without other parts the changes are the node's own.
  void apply(plan::Scope scope, TimePoint now, Pass& pass,
             const std::vector<Turns::Part>& parts = {{}});
  plan::Scope apply_once(plan::Scope scope, TimePoint now, Pass& pass,
                         const std::vector<Turns::Part>& parts);
  void put_back(const plan::Scope& scope, const std::vector<Turns::Part>& parts,
                const plan::Scope& failed);
  Outcome execute(plan::Transaction transaction, TimePoint now, Pass& pass,
                  const Applier::Pause& pause);
  void meet_foreign(const std::set<netlink::VirtualServiceKey>& existing,
                    const plan::Transaction& transaction);
  void note_drains(const plan::ServiceKeySet& services, TimePoint now);

  Kernel kernel_;
  ReconcilerSettings settings_;
  spdlog::logger& logger_;
  SyncLog log_;
  Drift drift_;

  State state_ = State::waiting_for_lists;
  ReadingSchedule schedule_;

  model::ClusterState cluster_;
  std::set<api::NamespacedName> touched_;  // Services to plan again, since the last run
  Turns turns_;
  std::set<netlink::Family> unsettled_rules_;  // they may be those of the old state as well
  Trash trash_;
  bool node_touched_ = false;
  plan::NodeIps node_ips_;
  std::string told_node_ips_;  // the last log text about missing node IPs
  netlink::LinkEvents link_events_;
  bool filter_changed_ = false;
  plan::Planner planner_;
  Holding holding_;
  plan::Mirror mirror_;

  bool look_at_all_ = false;   // compare everything with the mirror
  bool asked_ = false;         // input was taken since the last run
  bool links_failed_ = false;  // the last reading of links failed
  TimePoint first_whole_{};
  Reading reading_;
  Retries retries_;
  Refusals refusals_;
  HealthReports health_;
  TriggerTimes triggers_;
  Requests told_requests_;  // included in earlier reports
  SyncStanding standing_;   // without the values that answer() adds
  Drain drain_;
  LastChanges changes_;
  StaleFlows flows_;
  TakeOver take_over_;
  FirewallWatch firewall_;
  UntrackedProbe untracked_;
  FlowGuard flow_guard_;
  SchedulerProbe schedulers_;
  LocalhostLoop loop_;
  HostKeeper host_;
  SchedulerChanges scheduler_changes_;
  FiguresReader figures_;
};

}  // namespace ipvsproxier::sync
