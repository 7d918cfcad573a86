#pragma once

// FakeDaemon: the reconciler as a daemon uses it, on fakes and a clock that the test sets. Node n1
// of cluster_builder.h. Every write is watched: what breaks the promises to traffic is noted.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/sync/reconciler.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::test {

// Watches operations on fakes: nothing that is desired is taken away or set to weight 0, nothing at
// all is while the objects are not known whole, but for who keeps his source or is sent on; nothing
// is shown (a virtual service, an address) unless its set elements and rules are there; and what is
// still shown keeps them.
class KernelWatch {
 public:
  KernelWatch(FakeIpvsTable& ipvs, FakeLinkTable& links, FakeSetTable& sets, FakeRuleTable& rules);

  // What is to be reached from now on.
  void expect(plan::DesiredState desired);

  std::vector<std::string> broken;  // promises, in words

 private:
  using Guards = std::set<std::pair<plan::SetKey, ipset::Element>>;

  void saw(const netlink::IpvsOp& op);
  void saw(const netlink::AddressOp& op);
  void saw(const std::string& set, const ipset::ElementOp& op);
  bool only_drains(const netlink::VirtualServiceKey& service) const;
  bool is_desired(const plan::SetKey& set, const ipset::Element& element) const;
  void saw_rules(netlink::Family family);
  void note_consulted(netlink::Family family);
  void exposed(const std::string& what, netlink::Family family, const Guards& guards);
  bool rules_cover(netlink::Family family, const std::set<ipset::SetId>& sets) const;

  FakeIpvsTable& ipvs_;
  FakeLinkTable& links_;
  FakeSetTable& sets_;
  FakeRuleTable& rules_;
  plan::DesiredState desired_;
  std::map<netlink::VirtualServiceKey, Guards> guards_;   // of desired virtual services
  std::map<netlink::Family, bool> covered_;               // by the rules; absent: to be looked at
  std::map<netlink::VirtualServiceKey, Guards> leaving_;  // in the kernel, no longer desired
  std::map<netlink::Family, std::set<ipset::SetId>> consulted_;  // by rules, of what leaves
  std::set<netlink::IpAddress> leaving_addresses_;
};

struct FakeDaemonSettings {
  sync::DrainTimes drain;
  // Endpoints are pods that the local detector recognizes.
  plan::PlannerOptions options = {.families = {netlink::Family::ipv4},
                                  .cluster_cidrs = {test::prefix("10.244.0.0/16")}};
  sync::RemoveNftLeftovers remove_nft_leftovers;
  sync::FindFirewallWarnings find_firewall_warnings = {};
  sync::FindUntrackedPorts find_untracked_ports = {};
  sync::FindFlowRules find_flow_rules = {};
  sync::FlowTable flow_table = {};
  std::function<void()> doubt_first_lists;
  std::optional<sync::HostSetup> host;
  model::ServiceMetrics service_metrics = model::ServiceMetrics::off;
  std::size_t most_waiting_removals = sync::Trash::kMostWaiting;
  std::chrono::milliseconds sync_period = sync::ReconcilerSettings{}.sync_period;
};

class FakeDaemon {
 public:
  explicit FakeDaemon(FakeDaemonSettings settings = {});

  // A new process over the kernel as it is.
  void restart();
  void restart(const plan::PlannerOptions& options);  // with these from now on

  // The source tells what changed; the daemon does it, in as many turns as it takes. The report has
  // the writes, flows and repairs of all of them.
  sync::SyncReport see(const model::ClusterState& next);
  // As above, and all of it was listed again.
  sync::SyncReport see_again(const model::ClusterState& next);
  sync::SyncReport see(netlink::LinkEvents events);
  // The API server is reached by these addresses, of which planned() knows nothing.
  sync::SyncReport see_api_server(std::set<netlink::IpAddress> addresses);
  // Others are said to have changed what holds the sets and rules.
  sync::SyncReport see_filter_change();

  // Time passes; whatever becomes due is done when it is. The last report that tells something.
  sync::SyncReport wait(std::chrono::milliseconds time);
  // What is due now is done: of a reading back, one part.
  sync::SyncReport run(const std::stop_token& stop = {});
  // As run(), and what waits for its turn, too.
  sync::SyncReport run_turns();
  // The source tells what changed, and nothing is done yet.
  void hear(const model::ClusterState& next);
  bool has_turns() const { return reconciler_->has_turns(); }
  // The traffic figures as a scrape gets them; nullopt: the reading failed. `each`: the time that a
  // part of it takes.
  std::optional<std::vector<serve::ServiceFigures>> scrape(std::chrono::milliseconds each = {});
  // Asks it between two syncs.
  void ask(const sync::Question& question) const { reconciler_->answer({question}, now); }
  bool reading() const { return reconciler_->reading(); }
  std::size_t runs() const { return runs_; }  // so far, without those that only read a part

  void clear_faults();
  std::size_t fault_hits() const;
  std::size_t writes() const;                                // tried, by the fakes' counts
  const sync::Written& written() const { return written_; }  // done, by the daemon's reports
  bool says(const std::string& text) const { return log_.str().find(text) != std::string::npos; }
  std::string log() const { return log_.str(); }
  std::map<netlink::RealServerKey, std::uint32_t> weights(const netlink::VirtualServiceKey& key);
  bool is_bound(const std::string& address) const;

  // What is to be reached: a plan from scratch of the cluster last seen on this node as it is, with
  // the IPs that the Node named since the start.
  plan::DesiredState planned();
  // All fakes, past all faults: one line a thing.
  std::set<std::string> dump();
  // Where the fakes differ from the plan, in such lines; and what of the plan they lack.
  std::set<std::string> differences();
  std::set<std::string> missing();

  FakeIpvsTable ipvs;
  FakeLinkTable links;
  FakeSetTable sets;
  FakeRuleTable rules;
  FakeConntrackTable conntrack;
  sync::TimePoint now{std::chrono::hours(1)};
  bool input_waits = false;  // the source has more to tell
  KernelWatch watch{ipvs, links, sets, rules};

 private:
  std::set<std::string> wanted();
  std::set<std::string> found();
  std::set<std::string> wrong_rules();

  std::vector<serve::FiguresPart> figures_;  // that were published
  std::ostringstream log_;
  spdlog::logger logger_;
  sync::ReconcilerSettings settings_;
  std::unique_ptr<sync::Reconciler> reconciler_;
  model::ClusterState cluster_;
  plan::NodeIps node_ips_;
  bool new_process_ = true;
  bool listed_again_ = false;
  std::size_t runs_ = 0;
  sync::Written written_;
};

// An end of a flow of connection tracking.
inline netlink::FlowEnd end_of(const std::string& address, std::uint16_t port) {
  return {ip(address), port};
}

}  // namespace ipvsproxier::test
