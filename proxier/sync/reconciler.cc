#include "proxier/sync/reconciler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/plan/diff.h"
#include "proxier/plan/localhost.h"
#include "proxier/sync/append.h"
#include "proxier/sync/read_back.h"

namespace ipvsproxier::sync {

namespace {

// nullptr: the kernel has none.
ipset::SetTable* ip_sets_of(const Kernel& kernel) {
  const bool are_other = kernel.other && kernel.other->filter == ipset::PacketFilter::iptables;
  return are_other ? kernel.other->sets : &kernel.sets;
}

}  // namespace

Reconciler::Reconciler(Kernel kernel, ReconcilerSettings settings, spdlog::logger& logger)
    : kernel_(kernel),
      settings_(std::move(settings)),
      logger_(logger),
      log_(logger),
      drift_(logger),
      schedule_(settings_.sync_period),
      trash_(settings_.most_waiting_removals),
      node_ips_(settings_.options.differences.follow_node_ip, settings_.bind_address),
      planner_(settings_.options),
      holding_(logger, settings_.doubt_first_lists),
      refusals_(log_.objects()),
      drain_(settings_.drain),
      flows_(settings_.early_flows),
      take_over_(kernel_.rules, kernel_.other, settings_.remove_nft_leftovers, logger_,
                 ip_sets_of(kernel_), settings_.options.differences.take_over_kube_router),
      firewall_(settings_.find_firewall_warnings, logger_),
      untracked_(settings_.find_untracked_ports, logger_),
      flow_guard_(settings_.find_flow_rules, settings_.flow_table, logger_),
      schedulers_(settings_.options.differences.service_annotations),
      loop_(settings_.options, logger_),
      host_(settings_.host, logger_),
      figures_(settings_.service_metrics, settings_.publish_figures, logger) {}

void Reconciler::take(SyncInput input) {
  if (state_ == State::waiting_for_lists && input.changes.complete) state_ = State::unread;
  asked_ = asked_ || !input.empty();
  const bool was_complete = cluster_.complete;
  const bool let_go = holding_.take(input.changes, planner_);
  auto touched = cluster_.take(std::move(input.changes));
  health_.touch(touched.services);
  triggers_.note(touched.triggers);
  touched_.merge(touched.services);
  if (input.api_server) touched_.merge(planner_.set_api_server(*input.api_server, cluster_));
  node_touched_ = node_touched_ || touched.node;
  // Removals that are allowed now were not compared while something was unknown.
  look_at_all_ = look_at_all_ || let_go || cluster_.complete != was_complete;
  link_events_.merge(std::move(input.links));
  filter_changed_ = filter_changed_ || input.filter_changed;
  if (input.firewall_changed) firewall_.hurry();
  if (input.flow_rules_changed) flow_guard_.note_change();
}

SyncReport Reconciler::run(TimePoint now, const std::stop_token& stop) {
  if (!listed()) return {};
  const auto begin = std::chrono::steady_clock::now();
  Pass pass(stop);
  if (only_parts_are_due(now)) {
    if (flows_.running()) {
      purge_flows(now, pass);
      settings_.progress();
    } else {
      read_figures(now, pass);
    }
    // The end of a look at flows is reported like any other work.
    if (flows_.running() || pass.figures) {
      SyncReport report;
      report.figures = pass.figures;
      report.reading = true;
      return report;
    }
  }
  scheduler_changes_.begin();
  if (std::exchange(filter_changed_, false)) schedule_.hurry(now);
  if (has_mirror())
    follow(now, pass);
  else if (now >= schedule_.due())
    sync_whole(now, pass);
  if (drain_.next() && now >= *drain_.next() && !stop.stop_requested()) drain(now, pass);
  if (!stop.stop_requested()) purge_flows(now, pass);
  if (reads_figures() && !stop.stop_requested()) read_figures(now, pass);
  if (pass.whole) firewall_.hurry();
  if (pass.whole) flow_guard_.hurry();
  if (has_mirror() && !stop.stop_requested()) look_at_others(now, pass);
  auto report = finish(now, pass);
  const auto took = std::chrono::steady_clock::now() - begin;
  note_standing(report, took);
  scheduler_changes_.end(now, took);
  changes_.end({std::chrono::system_clock::now(), took});
  if (!report.reading) log_.tell(report, took, now);
  take_over(now, report);
  return report;
}

void Reconciler::answer(const std::vector<Question>& questions, TimePoint now) const {
  if (questions.empty()) return;
  auto standing = standing_;
  standing.listed = listed();
  standing.known = has_mirror();
  standing.draining = drain_.size();
  standing.waiting = retries_.size();
  if (const auto next = retries_.next())
    standing.next_try = std::chrono::ceil<std::chrono::milliseconds>(std::max(*next, now) - now);
  standing.wrong = log_.standing();
  if (const auto doubted = holding_.doubted(planner_.desired()); !doubted.empty())
    standing.wrong.push_back(doubted);
  for (const auto& warning : firewall_.dropping()) standing.wrong.push_back(warning);
  for (const auto& warning : flow_guard_.unguarded()) standing.wrong.push_back(warning);
  const Inspection inspection{cluster_, planner_, mirror_.state(), standing,
                              drain_,   changes_, refusals_,       now};
  for (const auto& question : questions) question(inspection);
}

// Handles changes first, so that they wait at most for the reading of one part.
void Reconciler::follow(TimePoint now, Pass& pass) {
  const bool may_begin = state_ == State::following || schedule_.hurried();
  const bool begins = may_begin && now >= schedule_.due();
  if (begins) begin_reading();
  sync_changes(now, pass, begins);
  // The links were the first part of this reading.
  if (begins || state_ != State::reading_back || pass.stop.stop_requested()) return;
  read_part(now, pass);
  if (!reading_.parts.running()) end_reading(now, pass);
}

TimePoint Reconciler::due() const {
  if (!listed()) return TimePoint::max();
  return reading() || has_turns() ? TimePoint::min() : due_by_time();
}

TimePoint Reconciler::due_by_time() const {
  return std::min(due_without_flows(), flows_.next().value_or(TimePoint::max()));
}

TimePoint Reconciler::due_without_flows() const {
  auto when = schedule_.due();
  for (const auto& next :
       {retries_.next(), refusals_.next(), scheduler_changes_.next(), drain_.next(), trash_.next(),
        has_mirror() ? firewall_.next() : std::nullopt,
        has_mirror() ? flow_guard_.next() : std::nullopt})
    if (next) when = std::min(when, *next);
  return when;
}

SyncReport Reconciler::run_to_end(TimePoint now) {
  constexpr int kPasses = 3;
  Pass all;
  all.last = true;
  take_over_.begin_last();
  std::vector<Failure> before;
  trash_.lift();
  for (int i = 0; i < kPasses; ++i) {
    Pass pass;
    sync_whole(now, pass);
    while (has_turns()) {
      queue_touched();
      take_turn(now, pass);
    }
    while (scheduler_changes_.waiting()) {
      scheduler_changes_.begin();
      apply(scheduler_changes_.due(TimePoint::max()), now, pass);
    }
    do drain(now, pass);
    while (drain_.running());
    do purge_flows(now, pass);
    while (flows_.running());
    before = std::exchange(all.failures, std::move(pass.failures));
    all.whole = true;
    all.problems = std::move(pass.problems);
    all.warnings = std::move(pass.warnings);
    all.held = std::move(pass.held);
    all.written += pass.written;
    all.failed += pass.failed;
    all.sysctls += pass.sysctls;
    all.flows += pass.flows;
    all.rules_failed.merge(pass.rules_failed);
    if (all.failures.empty() || all.failures == before) break;
    logger_.info("{} operations failed, reading the kernel again", all.failures.size());
  }
  auto report = finish(now, all);
  take_over(now, report);
  return report;
}

// Removes the temporary set of a process that ended while it replaced a set.
void Reconciler::remove_copy(Pass& pass) {
  const auto left = kernel_.sets.list(ipset::kCopyName);
  if (!left || !*left) return;  // A failed listing is reported with the sets that matter.
  if (auto gone = kernel_.sets.destroy(ipset::kCopyName); !gone)
    pass.failures.push_back({std::string("remove set ") + ipset::kCopyName, gone.error()});
}

// Empty sets for something that the configuration has turned off. A set that a rule still uses
// stays.
void Reconciler::remove_unwanted_sets(Pass& pass) {
  const auto& options = settings_.options;
  for (const auto family : options.families)
    for (const auto id : ipset::sets_of(options.packet_filter)) {
      if (!ipset::is_made_late(id) || plan::may_have_elements(id, options)) continue;
      const auto found = mirror_.state().sets.find({family, id});
      if (found == mirror_.state().sets.end() || !found->second || !found->second->empty() ||
          !kernel_.sets.destroy(ipset::set_name(id, family)))
        continue;
      ++pass.written.sets;
      mirror_.take([&](plan::ActualState& state) { state.sets.at({family, id}).reset(); });
    }
}

void Reconciler::sync_whole(TimePoint now, Pass& pass) {
  schedule_.begin_whole(now);
  if (first_whole_ == TimePoint{}) first_whole_ = now;
  pass.sysctls += host_.keep(kernel_.ipvs, has_mirror(), pass);
  const bool dummy_usable = ensure_dummy(pass);
  const auto bound = refresh_node(pass);
  if (!bound) return;
  link_events_ = {};
  changes_.begin(std::exchange(touched_, {}));
  turns_.clear();
  schedulers_.look_for_all(cluster_, kernel_.ipvs, planner_);
  planner_.update_all(cluster_);
  if (!has_mirror()) {
    look_for_translation();
    look_for_flow_rules(now);
  }
  take_over_.begin();
  if (!has_mirror()) remove_copy(pass);
  auto failures = read_whole(dummy_usable ? &*bound : nullptr);
  pass.suspect = pass.suspect || !failures.empty();
  append(pass.failures, std::move(failures));
  look_at_all_ = false;
  pass.whole = true;
  flows_.note_left(planner_.desired(), mirror_.state());  // before any change
  apply(plan::whole(planner_.desired(), mirror_.state()), now, pass);
  remove_unwanted_sets(pass);
  leave_loop(pass);
}

// Makes the mirror anew. `bound`: nullptr if bindings cannot be changed. Returns the parts that
// could not be read.
std::vector<Failure> Reconciler::read_whole(const BoundAddresses* bound) {
  std::vector<Failure> failures;
  mirror_.read_anew([&](plan::ActualState& state) {
    if (bound != nullptr) take_bindings(*bound, settings_.options.differences, state);
    failures = read_kernel(kernel_, planner_.desired(), state);
  });
  settings_.progress();
  planner_.update(planner_.set_foreign(mirror_.state().foreign, cluster_), cluster_);
  if (!has_mirror()) holding_.begin(cluster_);
  holding_.note(mirror_.state(), planner_);
  if (!has_mirror()) figures_.ask_silently(mirror_.state());
  state_ = State::following;
  return failures;
}

std::vector<Failure> Reconciler::read_and_plan() {
  Pass pass;
  pass.dry = true;
  const auto bound = refresh_node(pass);
  if (!bound) return std::move(pass.failures);
  tell_node_ips({});
  planner_.update_all(cluster_);
  look_for_translation();
  look_for_flow_rules({});
  auto failures = read_whole(&*bound);
  // A daemon that runs beside kube-proxy has settled them.
  for (const auto& [key, rules] : mirror_.state().rules)
    if (ipset::keeps_destinations(rules)) planner_.keep_destinations(key.family, true);
  return failures;
}

void Reconciler::begin_reading() {
  state_ = State::reading_back;
  schedule_.begin_parts();
  reading_ = {};
  reading_.parts.begin();
}

void Reconciler::read_part(TimePoint now, Pass& pass) {
  auto part = reading_.parts.step(kernel_, planner_.desired(), mirror_.state());
  settings_.progress();
  pass.suspect = pass.suspect || !part.failures.empty();
  append(reading_.failures, std::move(part.failures));
  reading_.look_at_all = reading_.look_at_all || part.look_at_all;
  if (!part.take) return;
  pass.repairs += drift_.take(planner_.desired(), part.differs, part.take, mirror_);
  reading_.look_at_all = holding_.note(mirror_.state(), planner_) || reading_.look_at_all;
  auto scope = std::move(part.differs);
  scope.merge(part.news);
  if (part.foreign_read)
    scope.merge(planner_.update(planner_.set_foreign(mirror_.state().foreign, cluster_), cluster_));
  // Removals that belong to a virtual service that is not desired may have waited for this part.
  plan::Scope leaving;
  for (const auto& key : scope.services)
    if (!planner_.desired().services.contains(key)) leaving.merge(plan::scope_of(key));
  scope.merge(leaving);
  apply(completed(std::move(scope)), now, pass);
}

// After all parts: reports together the parts that could not be read.
void Reconciler::end_reading(TimePoint now, Pass& pass) {
  state_ = State::following;
  schedule_.end_parts(now);
  drift_.end();
  append(pass.failures, std::exchange(reading_.failures, {}));
  pass.sysctls += host_.keep(kernel_.ipvs, has_mirror(), pass);
  touched_.merge(schedulers_.look_again(cluster_, kernel_.ipvs, planner_));
  pass.whole = !links_failed_;
  flows_.note_left(planner_.desired(), mirror_.state());
  if (!schedule_.surprised() && !pass.suspect) mirror_.settle();
  queue_touched();
  if (reading_.look_at_all) turns_.put({}, plan::whole(planner_.desired(), mirror_.state()));
  // Even an empty turn tries again to replace sets with other options.
  take_turn(now, pass);
  remove_unwanted_sets(pass);
  leave_loop(pass);
}

// Completes a scope: a VIP that will be exposed is compared together with its guards, guards that
// will be removed together with the VIPs that must go first, and elements that wait for real
// servers together with these.
plan::Scope Reconciler::completed(plan::Scope scope) const {
  const auto& desired = planner_.desired();
  const auto& kernel = mirror_.state();
  const auto waiting = retries_.all();
  scope.rules.insert(waiting.rules.begin(), waiting.rules.end());
  for (const auto& [key, elements] : waiting.elements)
    scope.elements[key].insert(elements.begin(), elements.end());
  for (const auto& key : waiting.services)
    if (!desired.services.contains(key)) scope.services.insert(key);
  for (const auto& address : waiting.addresses)
    if (!desired.addresses.contains(address)) scope.addresses.insert(address);
  plan::add_deciding(desired, scope);

  std::set<api::NamespacedName> owners;
  for (const auto& key : scope.services) {
    const auto* owner = planner_.owner_of(key);
    if (owner != nullptr && !(kernel.services && kernel.services->contains(key)))
      owners.insert(*owner);
  }
  for (const auto& address : scope.addresses)
    for (const auto& key : unbound_services(address))
      if (const auto* owner = planner_.owner_of(key)) owners.insert(*owner);
  add_whole(owners, waiting, scope);
  return scope;
}

// Adds all of these Services, except virtual services that failed before: these are tried again
// when they are due, not in each turn of their Service. An address of which no virtual service is
// in the kernel or in the scope waits for one that is due.
void Reconciler::add_whole(const std::set<api::NamespacedName>& services,
                           const plan::Scope& waiting, plan::Scope& scope) const {
  const auto& kernel = mirror_.state();
  plan::Scope whole;
  for (const auto& service : services) whole.merge(planner_.scope_of(service));
  for (const auto& key : std::exchange(whole.services, {}))
    if (scope.services.contains(key) ||
        (!waiting.services.contains(key) && !refusals_.contains(key)))
      whole.services.insert(key);
  scope.merge(whole);

  const auto is_tried = [&](const netlink::VirtualServiceKey& key) {
    return scope.services.contains(key) || (kernel.services && kernel.services->contains(key));
  };
  for (const auto& address : whole.addresses) {
    const auto keys = unbound_services(address);
    if (!keys.empty() && std::none_of(keys.begin(), keys.end(), is_tried))
      scope.addresses.erase(address);
  }
}

// The desired virtual services of this address; none if it is bound.
std::vector<netlink::VirtualServiceKey> Reconciler::unbound_services(
    const netlink::IpAddress& address) const {
  const auto& kernel = mirror_.state();
  std::vector<netlink::VirtualServiceKey> keys;
  if (kernel.addresses && kernel.addresses->contains(address)) return keys;
  const auto& desired = planner_.desired().services;
  for (auto it = desired.lower_bound({address});
       it != desired.end() && it->first.address == address; ++it)
    keys.push_back(it->first);
  return keys;
}

// An address is bound only with one of its virtual services: while it is not, all of its Services
// that failed is tried again at once.
plan::Scope Reconciler::with_unbound(plan::Scope due) const {
  auto addresses = due.addresses;
  for (const auto& key : due.services) addresses.insert(key.address);
  std::set<api::NamespacedName> owners;
  for (const auto& address : addresses)
    for (const auto& key : unbound_services(address))
      if (const auto* owner = planner_.owner_of(key)) owners.insert(*owner);
  for (const auto& owner : owners) due.merge(planner_.scope_of(owner));
  return due;
}

void Reconciler::read_figures() {
  if (has_mirror())
    figures_.ask();
  else
    figures_.answer_nothing();
}

// Then a part of a look at flows or of figures is all that run() does: nothing else has changed
// since the run before.
bool Reconciler::only_parts_are_due(TimePoint now) const {
  return (flows_.running() || reads_figures()) && state_ == State::following && !drain_.running() &&
         !asked_ && !filter_changed_ && !look_at_all_ && touched_.empty() && turns_.empty() &&
         (flows_.running() ? due_without_flows() : due_by_time()) > now;
}

FiguresReader::View Reconciler::figures_view(TimePoint now) const {
  return {cluster_, planner_, mirror_.state(), drain_, now};
}

void Reconciler::read_figures(TimePoint now, Pass& pass) {
  figures_.step(kernel_.ipvs, figures_view(now));
  settings_.progress();
  pass.figures = true;
}

void Reconciler::purge_flows(TimePoint now, Pass& pass) {
  if (!flows_.next() || now < *flows_.next()) return;
  const auto purges =
      flows_.purge(kernel_.conntrack, planner_.desired(), mirror_.state(), now, pass.failures);
  for (const auto& [family, purge] : purges) {
    pass.flows += purge.removed;
    auto& all = pass.purges[family];
    all.removed += purge.removed;
    all.failed += purge.failed;
    all.took += purge.took;
  }
}

}  // namespace ipvsproxier::sync
