#include "proxier/sync/reconciler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "proxier/plan/diff.h"
#include "proxier/sync/kernel_state.h"

namespace ipvsproxier::sync {

namespace {

// After a surprise the kernel is read again, at first almost at once.
constexpr loop::Backoff kSurprised{std::chrono::milliseconds(200), std::chrono::seconds(30)};

constexpr std::size_t kTold = 20;  // things named one by one

api::Problem unknown_scheduler(const ReconcilerSettings& settings,
                               const std::vector<netlink::VirtualServiceKey>& keys) {
  std::string list;
  for (const auto& key : keys) list += (list.empty() ? "" : ", ") + to_string(key);
  const auto& name = settings.options.scheduler;
  return {.severity = api::Severity::error,
          .origin = settings.config_origin,
          .object = "KubeProxyConfiguration",
          .field = "ipvs.scheduler",
          .message = "this kernel has no IPVS scheduler \"" + name + "\" (module ip_vs_" + name +
                     "); choose another or install the module; not programmed: " + list};
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

std::string names_of(const std::set<plan::Place>& places) {
  std::string names;
  for (const auto place : places) names += (names.empty() ? "" : ", ") + plan::dummy_link(place);
  return names.empty() ? plan::kDummyLink : names;
}

std::set<std::string> lines_of(const plan::Transaction& transaction) {
  std::set<std::string> lines;
  const std::string text = plan::to_text(transaction);
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    if (text[begin] == ' ') lines.insert(text.substr(begin + 2, end - begin - 2));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

bool SyncReport::empty() const {
  return complete() && written == Written{} && sysctls == 0 && flows == 0;
}

std::string to_string(const SyncReport& report) {
  const auto& written = report.written;
  return fmt::format(
      "ipvs {}, links {}, addresses {}, elements {}, sets {}, rule tables {}, sysctls {}, flows "
      "{}, failures {}",
      written.ipvs, written.links, written.addresses, written.elements, written.sets,
      written.rule_tables, report.sysctls, report.flows, report.failures + report.problems);
}

Reconciler::Reconciler(Kernel kernel, ReconcilerSettings settings, spdlog::logger& logger)
    : kernel_(kernel),
      settings_(std::move(settings)),
      logger_(logger),
      log_(logger),
      planner_(settings_.options),
      drain_(settings_.drain),
      take_over_(kernel_.rules, settings_.remove_nft_leftovers, logger_) {}

void Reconciler::take(SyncInput input) {
  listed_ = listed_ || input.changes.complete.has_value();
  const bool was_complete = cluster_.complete;
  auto touched = cluster_.take(std::move(input.changes));
  health_.touch(touched.services);
  triggers_.note(touched.triggers);
  touched_.merge(touched.services);
  node_touched_ = node_touched_ || touched.node;
  // What may be removed now was not looked at while something was unknown.
  look_at_all_ = look_at_all_ || cluster_.complete != was_complete;
  link_events_.merge(std::move(input.links));
}

SyncReport Reconciler::run(TimePoint now, const std::stop_token& stop) {
  if (!listed_) return {};
  const auto begin = std::chrono::steady_clock::now();
  Pass pass(stop);
  if (now >= whole_due_)
    sync_whole(now, pass);
  else if (known_)
    sync_changes(now, pass);
  if (drain_.next() && now >= *drain_.next() && !stop.stop_requested()) drain(now, pass);
  if (!stop.stop_requested()) purge_flows(now, pass);
  auto report = finish(now, pass);
  const auto took = std::chrono::steady_clock::now() - begin;
  logger_.log(report.empty() ? spdlog::level::debug : spdlog::level::info, "synced: {}, took {} ms",
              to_string(report),
              std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  return report;
}

TimePoint Reconciler::due() const {
  if (!listed_) return TimePoint::max();
  auto when = whole_due_;
  for (const auto& next : {retries_.next(), drain_.next(), flows_.next()})
    if (next) when = std::min(when, *next);
  return when;
}

SyncReport Reconciler::run_to_end(TimePoint now) {
  constexpr int kPasses = 3;
  Pass all;
  std::vector<Failure> before;
  for (int i = 0; i < kPasses; ++i) {
    Pass pass;
    sync_whole(now, pass);
    drain(now, pass);
    purge_flows(now, pass);
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
  return finish(now, all);
}

void Reconciler::keep_host(Pass& pass) {
  if (!settings_.host) return;
  auto report = prepare_host(*settings_.host, kernel_.ipvs);
  pass.sysctls += report.written.size();
  host_failed_ = !report.failures.empty();
  append(pass.failures, std::move(report.failures));
  append(pass.warnings, std::move(report.warnings));
  if (!known_) return;
  for (const auto& what : report.written)
    logger_.warn("others changed what this node needs: set {} again", what);
}

bool Reconciler::ensure_dummy(Pass& pass) {
  auto created = kernel_.links.ensure_dummy(plan::kDummyLink);
  if (created) {
    pass.written.links += *created ? 1 : 0;
    if (*created && known_) logger_.warn("others removed link {}: made it again", plan::kDummyLink);
    return true;
  }
  pass.suspect = true;
  pass.failures.push_back({std::string("make link ") + plan::kDummyLink, created.error()});
  return false;
}

// What a process before us left that ended while it replaced a set.
void Reconciler::remove_copy(Pass& pass) {
  const auto left = kernel_.sets.list(ipset::kCopyName);
  if (!left || !*left) return;  // what cannot be listed is told with the sets that matter
  if (auto gone = kernel_.sets.destroy(ipset::kCopyName); !gone)
    pass.failures.push_back({std::string("remove set ") + ipset::kCopyName, gone.error()});
}

// nullopt: every answer would be a guess.
std::optional<std::vector<netlink::InterfaceAddress>> Reconciler::refresh_node(Pass& pass) {
  auto addresses = kernel_.links.list_addresses();
  if (!addresses) {
    pass.suspect = true;
    pass.failures.push_back({"list this node's addresses", std::move(addresses.error())});
    return std::nullopt;
  }
  const auto node =
      plan::node_info(settings_.node_name, cluster_.node, settings_.bind_address, *addresses);
  planner_.set_node(node);
  health_.see_node(node, settings_.options);
  node_touched_ = false;
  return *std::move(addresses);
}

void Reconciler::sync_whole(TimePoint now, Pass& pass) {
  whole_due_ = now + settings_.sync_period;
  if (first_whole_ == TimePoint{}) first_whole_ = now;
  keep_host(pass);
  const bool dummy_usable = ensure_dummy(pass);
  const auto addresses = refresh_node(pass);
  if (!addresses) return;
  link_events_ = {};
  planner_.update(std::exchange(touched_, {}), cluster_);
  take_over_.begin();
  if (!known_) remove_copy(pass);
  auto reading = read_kernel(kernel_, planner_.desired(), *addresses, dummy_usable);
  settings_.progress();
  if (known_) pass.repairs += report_drift(reading.state);
  known_ = true;
  mirror_ = std::move(reading.state);
  perhaps_ = {};
  pass.suspect = pass.suspect || !reading.failures.empty();
  append(pass.failures, std::move(reading.failures));
  look_at_all_ = false;
  pass.whole = true;
  // Before anything can be noted as changed: what was left when a process before us ended.
  flows_noted_ = flows_noted_ || flows_.note_all(mirror_);
  apply(plan::whole(planner_.desired(), mirror_), now, pass);
}

// What is to be done now and was not to be done before the kernel was read again. Answers how much.
std::size_t Reconciler::report_drift(const plan::ActualState& found) {
  if (found == mirror_) return 0;
  // What was not known before tells nothing.
  auto comparable = found;
  if (!mirror_.services) comparable.services.reset();
  if (!mirror_.addresses) comparable.addresses.reset();
  std::erase_if(comparable.sets,
                [&](const auto& set) { return !mirror_.sets.contains(set.first); });
  std::erase_if(comparable.rules,
                [&](const auto& table) { return !mirror_.rules.contains(table.first); });
  auto repairs = lines_of(plan::diff(planner_.desired(), comparable));
  if (repairs.empty()) return 0;
  for (const auto& line : lines_of(plan::diff(planner_.desired(), mirror_))) repairs.erase(line);
  std::size_t told = 0;
  for (const auto& line : repairs)
    if (told++ < kTold) logger_.warn("others changed the kernel; repairing: {}", line);
  if (repairs.size() > kTold)
    logger_.warn("others changed the kernel; {} more repairs", repairs.size() - kTold);
  return repairs.size();
}

// After events of links: what the events may have changed is read again. Most of them are echoes of
// our own writing.
plan::Scope Reconciler::repair_links(Pass& pass) {
  plan::Scope scope;
  auto events = std::exchange(link_events_, {});
  const auto& desired = planner_.desired();
  const bool lost_wanted =
      std::any_of(events.lost.begin(), events.lost.end(),
                  [&](const auto& address) { return desired.addresses.contains(address); });
  if (!events.link_lost && !events.overrun && !events.others_changed && !node_touched_ &&
      !lost_wanted)
    return scope;
  const bool dummy_usable = ensure_dummy(pass);
  const auto addresses = refresh_node(pass);
  if (!addresses || !dummy_usable) {
    link_events_.merge(std::move(events));
    return scope;
  }
  const auto before = std::exchange(mirror_.addresses, std::nullopt);
  read_dummy_addresses(*addresses, mirror_);
  std::set<plan::Place> places;
  std::string gone;
  std::size_t count = 0;
  for (const auto& address : desired.addresses) {
    if (mirror_.addresses->contains(address)) continue;
    scope.addresses.insert(address);
    if (!events.lost.contains(address)) continue;
    if (count++ < kTold) gone += (gone.empty() ? "" : ", ") + address.to_string();
    if (before)
      for (const auto place : before->places(address)) places.insert(place);
  }
  if (count > kTold) gone += fmt::format(" and {} more", count - kTold);
  if (count > 0)
    logger_.warn("others removed address {} from {}: adding it again", gone, names_of(places));
  return scope;
}

// A VIP that is to be shown is looked at with all that guards it, and guards that are to go with
// the VIPs that must go before them.
plan::Scope Reconciler::completed(plan::Scope scope) const {
  const auto& desired = planner_.desired();
  const auto waiting = retries_.all();
  scope.rules.insert(waiting.rules.begin(), waiting.rules.end());
  for (const auto& [key, elements] : waiting.elements)
    scope.elements[key].insert(elements.begin(), elements.end());
  for (const auto& key : waiting.services)
    if (!desired.services.contains(key)) scope.services.insert(key);
  for (const auto& address : waiting.addresses)
    if (!desired.addresses.contains(address)) scope.addresses.insert(address);

  std::set<api::NamespacedName> owners;
  for (const auto& key : scope.services) {
    const auto it = desired.services.find(key);
    if (it != desired.services.end() && !(mirror_.services && mirror_.services->contains(key)))
      owners.insert(it->second.owner.service);
  }
  for (const auto& address : scope.addresses) {
    if (mirror_.addresses && mirror_.addresses->contains(address)) continue;
    for (auto it = desired.services.lower_bound({address});
         it != desired.services.end() && it->first.address == address; ++it)
      owners.insert(it->second.owner.service);
  }
  for (const auto& owner : owners) scope.merge(planner_.scope_of(owner));
  return scope;
}

// What the kernel may hold is taken for there once it is to go: so it goes before its guards.
void Reconciler::assume_added() {
  const auto& desired = planner_.desired();
  std::erase_if(perhaps_.services, [&](const netlink::VirtualServiceKey& key) {
    if (desired.services.contains(key) || !mirror_.services) return false;
    mirror_.services->try_emplace(
        key, plan::ActualService{.service = {.key = key}, .servers = std::nullopt});
    return true;
  });
  std::erase_if(perhaps_.bindings, [&](const plan::Binding& binding) {
    if (desired.addresses.contains(binding.address) || !mirror_.addresses) return false;
    mirror_.addresses->insert(binding);
    return true;
  });
}

void Reconciler::sync_changes(TimePoint now, Pass& pass) {
  auto scope = repair_links(pass);
  scope.merge(planner_.update(std::exchange(touched_, {}), cluster_));
  scope.merge(retries_.due(now));
  assume_added();
  if (std::exchange(look_at_all_, false)) scope = plan::whole(planner_.desired(), mirror_);
  if (!scope.empty()) apply(completed(std::move(scope)), now, pass);
}

void Reconciler::apply(const plan::Scope& scope, TimePoint now, Pass& pass) {
  const auto transaction = plan::diff(planner_.desired(), mirror_, scope);
  if (!transaction.empty()) drain_.yield(now);
  retries_.note(scope, execute(transaction, pass), now);
  note_drains(scope.services, now);
}

// Answers what failed.
plan::Scope Reconciler::execute(const plan::Transaction& transaction, Pass& pass) {
  if (!transaction.empty() && logger_.should_log(spdlog::level::debug))
    logger_.debug("transaction:\n{}", plan::to_text(transaction));
  flows_.note(transaction, mirror_);
  auto outcome = Applier(kernel_, mirror_, settings_.progress).apply(transaction, pass.stop);
  pass.written += outcome.written;
  pass.failed += outcome.failed;
  pass.rules_failed.merge(outcome.rules_failed);
  pass.suspect = pass.suspect || outcome.suspect;
  perhaps_.merge(std::move(outcome.perhaps));
  append(pass.failures, std::move(outcome.failures));
  append(pass.held, std::move(outcome.held));
  if (!outcome.without_scheduler.empty())
    pass.problems.push_back(unknown_scheduler(settings_, outcome.without_scheduler));
  return std::move(outcome.unsettled);
}

void Reconciler::note_drains(const std::set<netlink::VirtualServiceKey>& services, TimePoint now) {
  if (!mirror_.services) return;
  for (const auto& key : services) {
    const auto it = mirror_.services->find(key);
    if (it == mirror_.services->end() || it->second.servers)
      drain_.set(key, plan::draining(planner_.desired(), mirror_, key), now);
  }
}

void Reconciler::drain(TimePoint now, Pass& pass) {
  if (drain_.size() == 0) return;
  auto [removals, surprise] = drain_.collect(kernel_.ipvs, now, pass.failures);
  pass.suspect = pass.suspect || surprise;
  if (removals.empty()) return;
  std::set<netlink::VirtualServiceKey> services;
  for (const auto& op : removals) services.insert(netlink::service_of(op));
  plan::Transaction transaction;
  transaction.phases.push_back({"remove drained real servers", std::move(removals)});
  // What fails is looked at again by the next pass.
  execute(transaction, pass);
  note_drains(services, now);
  plan::Scope leaving;
  for (const auto& key : services)
    if (!planner_.desired().services.contains(key)) leaving.merge(plan::scope_of(key));
  if (!leaving.empty()) apply(leaving, now, pass);
}

void Reconciler::purge_flows(TimePoint now, Pass& pass) {
  if (!flows_.next() || now < *flows_.next()) return;
  pass.purges =
      flows_.purge(kernel_.conntrack, mirror_, retries_.all().services, now, pass.failures);
  for (const auto& [family, purge] : pass.purges) pass.flows += purge.removed;
}

// The other modes are taken away when the kernel has what is asked for. What fails for long must
// not keep rules that follow no change any more: then it is enough that no virtual service is
// missing.
void Reconciler::take_over(TimePoint now, const SyncReport& report) {
  if (!take_over_.pending() || !report.whole || !known_ || !cluster_.complete) return;
  const auto is_there = [&](const auto& service) {
    return mirror_.services && mirror_.services->contains(service.first);
  };
  const auto& services = planner_.desired().services;
  const bool late = now >= first_whole_ + settings_.sync_period;
  if (report.settled || (late && std::all_of(services.begin(), services.end(), is_there)))
    take_over_.finish();
}

void Reconciler::log_whats_left(TimePoint now, const Pass& pass) {
  const auto next = due();
  const bool again = next != TimePoint::max() && !pass.failures.empty();
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::max(next, now) - now);
  log_.tell(pass, pass.whole, again ? fmt::format("trying again in {} ms", wait.count()) : "", now);
}

Requests Reconciler::new_requests() {
  const Requests all{.ipvs = kernel_.ipvs.requests(),
                     .links = kernel_.links.requests(),
                     .sets = kernel_.sets.requests(),
                     .conntrack = kernel_.conntrack.requests()};
  const auto told = std::exchange(told_requests_, all);
  return {.ipvs = all.ipvs - told.ipvs,
          .links = all.links - told.links,
          .sets = all.sets - told.sets,
          .conntrack = all.conntrack - told.conntrack};
}

SyncReport Reconciler::finish(TimePoint now, Pass& pass) {
  append(pass.problems, planner_.problems());
  // The kernel is not as we believed: read it again soon, later each time that it does not help.
  if (pass.suspect)
    whole_due_ = std::min(whole_due_, now + kSurprised.delay(++surprises_, 0));
  else if (pass.whole)
    surprises_ = 0;
  log_whats_left(now, pass);

  SyncReport report;
  report.written = pass.written;
  report.sysctls = pass.sysctls;
  report.flows = pass.flows;
  report.failures = pass.failures.size() + pass.held.size();
  report.failed = pass.failed;
  report.requests = new_requests();
  report.rules_failed = std::move(pass.rules_failed);
  report.purges = std::move(pass.purges);
  for (const auto family : settings_.options.families)
    report.lack[family] = planner_.local_lack(family);
  report.repairs = pass.repairs;
  report.draining = drain_.size();
  report.whole = pass.whole;
  // Since the last surprise the whole kernel was read without another.
  const bool sure = known_ && surprises_ == 0 && touched_.empty();
  report.settled = sure && !host_failed_ && report.failures == 0 && retries_.empty();
  if (known_) {
    const auto waiting = retries_.all();
    report.health = health_.take(cluster_, planner_, settings_.node_name, waiting, sure);
    report.programmed = triggers_.take(planner_, waiting, sure);
  }
  for (const auto& problem : pass.problems)
    report.problems += problem.severity == api::Severity::error ? 1 : 0;
  take_over(now, report);
  return report;
}

}  // namespace ipvsproxier::sync
