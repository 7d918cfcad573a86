#pragma once

// Applier: applies a Transaction to the kernel tables. Sync thread only.

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "proxier/plan/mirror.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/guards.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

// Number of writes for each table.
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

struct Outcome {
  Written written;
  Written failed;                 // numbers of the failures for each table
  std::vector<Failure> failures;  // operations that failed for reasons of this node
  // Operations that the kernel refused because of their object (refusal.h), and operations that
  // were held back for that reason. Not part of `failures`, `held` and `unsettled`.
  std::vector<Refusal> refused;
  // Virtual services that were to be added and exist already; part of `failures`.
  std::set<netlink::VirtualServiceKey> existing;
  // Virtual services whose scheduler the kernel does not have; not part of `failures`.
  std::vector<netlink::VirtualServiceKey> without_scheduler;
  std::vector<std::string> held;  // operations that were held back because an earlier one failed
  std::set<netlink::Family> rules_failed;  // families with a rule table that the kernel refused
  plan::Scope unsettled;  // what `failures`, `held` and `without_scheduler` concern
  // The kernel differs from the mirror, or answers were lost: the kernel must be read again.
  bool suspect = false;
  std::size_t tried = 0;  // operations, without those that were held back
  bool paused = false;    // operations were left out, as `pause` asked for it
};

// Runs all phases. A failed operation does not stop the others, except those that depend on it
// (guards.h). A table that does not answer in time gets no further requests. A further dummy link
// is created before its first address and removed after its last. The mirror gets each successful
// operation, and each whose answer was lost.
class Applier {
 public:
  static constexpr std::size_t kPart = 1024;  // operations
  // Whether to leave the rest for later, after so many operations.
  using Pause = std::function<bool(std::size_t tried)>;

  // `progress` is called after each part of a phase, which has about a thousand operations at most.
  // `pause`, if it is not empty, is asked before each part except the first. As in every moment
  // between two operations, the kernel is then safe as it is, and a later transaction does what is
  // left.
  Applier(Kernel kernel, plan::Mirror& mirror, const std::function<void()>& progress,
          Pause pause = {})
      : kernel_(kernel), mirror_(mirror), progress_(progress), pause_(std::move(pause)) {}

  // Stops after the current phase if `stop` is requested.
  Outcome apply(const plan::Transaction& transaction, const std::stop_token& stop);

 private:
  void run(const std::vector<ipset::SetSpec>& specs);
  void run(const std::vector<ipset::TableRules>& tables);
  void run(const std::vector<plan::SetChange>& changes);
  void run(const std::vector<netlink::IpvsOp>& ops);
  void run(const std::vector<plan::BindingOp>& ops);
  void run_part(std::span<const netlink::IpvsOp> ops);
  // Operations on elements of one set.
  struct ElementPart {
    plan::SetKey key;
    ipset::SetSpec spec;
    std::span<const ipset::ElementOp> ops;
    std::vector<ipset::ElementOp> tried;  // those that are not held, if others are
  };
  void run_parts(std::vector<ElementPart> parts);
  void note(const ElementPart& part, const ipset::ElementOp& op, netlink::Status status);
  template <typename Request>
  static std::vector<netlink::Status> ask(bool& silent, std::size_t count, Request request);
  template <typename Request>
  netlink::Result<bool> ask_links(Request request);

  bool pauses();
  void end_part(std::size_t tried);
  netlink::Result<bool> write_rules(const ipset::TableRules& table);
  bool is_missing(const std::string& set) const;
  void refuse(const netlink::IpvsOp& op, netlink::Error error);
  void forget_scheduler(const netlink::IpvsOp& op, const netlink::Error& error);
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
  plan::Mirror& mirror_;
  const std::function<void()>& progress_;
  const Pause pause_;
  Outcome outcome_;
  // These tables did not answer in time.
  bool sets_silent_ = false;
  bool ipvs_silent_ = false;
  bool links_silent_ = false;
  Guards guards_;
};

}  // namespace ipvsproxier::sync
