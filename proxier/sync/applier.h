#pragma once

// Applier: a Transaction onto the kernel tables. Sync thread only.

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/refusal.h"
#include "proxier/sync/unguarded.h"

namespace ipvsproxier::sync {

// What was written, by table.
struct Written {
  std::size_t ipvs = 0;
  std::size_t links = 0;
  std::size_t addresses = 0;
  std::size_t elements = 0;
  std::size_t sets = 0;
  std::size_t rule_tables = 0;

  Written& operator+=(const Written& other);
  friend bool operator==(const Written&, const Written&) = default;
};

// What answers were lost about. VIPs that the kernel may hold besides, as their addition was asked
// for, and elements that it may hold no more.
struct Perhaps {
  std::set<netlink::VirtualServiceKey> services;
  std::set<plan::Binding> bindings;
  std::set<SetElement> gone;

  void merge(Perhaps other);
};

struct Outcome {
  Written written;
  Written failed;                 // how many of the failures are whose
  std::vector<Failure> failures;  // operations that failed for reasons of this node
  // Operations that the kernel refused because of what they are about, and those that were not
  // tried because of that. Not among the failures, the held and the unsettled.
  std::vector<Refusal> refused;
  // Virtual services for which the kernel has no such scheduler; not among the failures.
  std::vector<netlink::VirtualServiceKey> without_scheduler;
  std::vector<std::string> held;  // operations that were not tried because one before them failed
  std::set<netlink::Family> rules_failed;  // whose rules the kernel refused, all or some
  plan::Scope unsettled;  // what the failures, the held and the schedulers are about
  Perhaps perhaps;
  // The kernel is not as it was believed to be, or answers were lost: it must be read again.
  bool suspect = false;
};

// Runs all phases. A failed operation does not stop the others, but for those that must not happen
// without it: no virtual service and no address is added where its set elements, or the rules of
// its family, are not in place; no real server where its virtual service is missing; no address
// none of whose virtual services could be added; no address leaves a place that could not be added
// to the one that it moves to; and no element or rule goes while the virtual service or address
// that it guards could not be removed. A table that does not answer in time is asked for nothing
// more. A further dummy link is made before its first address and removed behind its last. What
// succeeded is committed to `state`.
class Applier {
 public:
  // `progress` is called after each phase.
  Applier(Kernel kernel, plan::ActualState& state, const std::function<void()>& progress)
      : kernel_(kernel), state_(state), progress_(progress) {}

  // Ends after the current phase when `stop` is requested.
  Outcome apply(const plan::Transaction& transaction, const std::stop_token& stop);

 private:
  void run(const std::vector<ipset::SetSpec>& specs);
  void run(const std::vector<ipset::TableRules>& tables);
  void run(const std::vector<plan::SetChange>& changes);
  void run(const std::vector<netlink::IpvsOp>& ops);
  void run(const std::vector<plan::BindingOp>& ops);
  void run_part(std::span<const netlink::IpvsOp> ops);
  void run_part(const plan::SetKey& key, std::span<const ipset::ElementOp> ops);
  template <typename Request>
  static std::vector<netlink::Status> ask(bool& silent, std::size_t count, Request request);
  template <typename Request>
  netlink::Result<bool> ask_links(Request request);

  netlink::Result<bool> write_rules(const ipset::TableRules& table);
  bool still_guards(const plan::SetKey& set, const ipset::Element& element) const;
  bool is_missing(const std::string& set) const;
  bool keeps_rules(netlink::Family family) const;
  // Why it must not be done now; nullopt: it may be.
  std::optional<Cause> must_hide(const netlink::VirtualServiceKey& key) const;
  std::optional<Cause> must_hold(const netlink::IpvsOp& op) const;
  std::optional<Cause> must_hold(const plan::BindingOp& op) const;
  void note(const netlink::IpvsOp& op, const netlink::Status& status);
  void refuse(const netlink::IpvsOp& op, netlink::Error error);
  void drop_useless();
  void hold(const plan::BindingOp& op, Cause cause);
  void write(plan::Place place, const std::vector<plan::BindingOp>& ops);
  void write_part(plan::Place place, std::span<const plan::BindingOp> ops);
  std::vector<netlink::Status> request(plan::Place place, std::span<const plan::BindingOp> ops);
  bool is_unused(plan::Place place) const;
  bool make_link(plan::Place place);
  void drop_link(plan::Place place);
  void fail(std::size_t& count, Failure failure);
  void fail(std::size_t& count, const Thing& thing, Cause cause, std::string what,
            netlink::Error error);
  void hold(const Thing& thing, Cause cause, std::string what);

  Kernel kernel_;
  plan::ActualState& state_;
  const std::function<void()>& progress_;
  Outcome outcome_;
  // They did not answer in time.
  bool sets_silent_ = false;
  bool ipvs_silent_ = false;
  bool links_silent_ = false;
  std::set<std::string> failed_sets_;
  std::set<netlink::Family> families_without_rules_;
  Unguarded unguarded_;
  Causes<netlink::VirtualServiceKey> failed_services_;
  std::set<netlink::IpAddress> addresses_with_service_;        // one was added in this transaction
  std::set<netlink::VirtualServiceKey> unscheduled_services_;  // added without, and wait for one
  std::set<netlink::VirtualServiceKey> useless_services_;      // for which there is none
  Causes<netlink::IpAddress> unbound_addresses_;               // one could not be added
  // Could not be removed.
  std::set<netlink::VirtualServiceKey> kept_services_;
  std::set<netlink::IpAddress> kept_addresses_;
};

}  // namespace ipvsproxier::sync
