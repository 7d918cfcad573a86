// Reconciler: whose changes are written in a run, and how one turn is written.

#include <algorithm>
#include <utility>

#include "proxier/plan/diff.h"
#include "proxier/plan/ownership.h"
#include "proxier/sync/append.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

namespace {

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

// Logs each operation as a line of its own.
void tell_operations(std::string_view text, spdlog::logger& logger) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    logger.debug("transaction: {}", line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
}

std::size_t count_operations(const plan::Transaction& transaction) {
  std::size_t count = 0;
  for (const auto& phase : transaction.phases) {
    if (const auto* changes = std::get_if<std::vector<plan::SetChange>>(&phase.work))
      for (const auto& change : *changes)
        for (const auto& op : change.ops) count += ipset::weight_of(op.element);
    else
      count += std::visit([](const auto& work) { return work.size(); }, phase.work);
  }
  return count;
}

// What the kernel refused because of objects, and belongs to no virtual service.
const Turns::Name kRefused{"", "refused"};

// A turn of a Service ends after so many operations if others wait. One of the node may compare
// everything, which is not to be compared anew too often.
std::size_t most_in_turn(const plan::Transaction& transaction,
                         const std::vector<Turns::Part>& parts) {
  constexpr std::size_t kPartsOfAll = 16;
  const bool of_node = parts.size() == 1 && parts.front().service == Turns::Name{};
  return of_node ? std::max(Turns::kMost, count_operations(transaction) / kPartsOfAll)
                 : Turns::kMost;
}

// The failed keys of a turn.
plan::Scope failed_in(const Outcome& outcome) {
  auto failed = outcome.unsettled;
  for (const auto& refusal : outcome.refused) insert(failed, refusal.thing);
  return failed;
}

// What is left of a turn that ended early, without what failed: that is tried again when it is due,
// as each further turn would begin with it otherwise.
plan::Scope rest_of(plan::Scope scope, const plan::Scope& failed) {
  for (const auto& key : failed.services) scope.services.erase(key);
  for (const auto& address : failed.addresses) scope.addresses.erase(address);
  for (const auto& [set, elements] : failed.elements)
    if (const auto rest = scope.elements.find(set); rest != scope.elements.end())
      for (const auto& element : elements) rest->second.erase(element);
  return scope;
}

}  // namespace

void Reconciler::queue_touched() {
  touched_.merge(schedulers_.look(touched_, cluster_, kernel_.ipvs, planner_));
  changes_.begin(touched_);
  for (auto& [service, scope] : planner_.update_each(std::exchange(touched_, {}), cluster_)) {
    for (const auto& key : scope.services)
      if (planner_.owner_of(key) == nullptr) trash_.note_leaving(key, service);
    turns_.put(service, std::move(scope));
  }
}

// Keys of many Services: a virtual service has the turn of its Service, all else that of `others`.
void Reconciler::queue(plan::Scope scope, const Turns::Name& others) {
  for (const auto& key : std::exchange(scope.services, {})) {
    const auto* owner = planner_.owner_of(key);
    turns_.put(owner != nullptr ? *owner : others, {.services = {key}});
  }
  turns_.put(others, std::move(scope));
}

void Reconciler::sync_changes(TimePoint now, Pass& pass, bool look_at_links) {
  turns_.put({}, repair_links(pass, look_at_links));
  queue_touched();
  turns_.put({}, with_unbound(retries_.due(now)));
  queue(with_unbound(refusals_.due(now)), kRefused);
  queue(scheduler_changes_.due(now), kRefused);
  for (const auto& [service, scope] : trash_.due(planner_.desired(), now))
    turns_.put(service, scope);
  if (std::exchange(look_at_all_, false))
    turns_.put({}, plan::whole(planner_.desired(), mirror_.state()));
  if (!turns_.empty()) take_turn(now, pass);
}

void Reconciler::take_turn(TimePoint now, Pass& pass) {
  auto turn = turns_.take([this](const plan::Scope& scope) {
    return size_of(scope, planner_.desired(), mirror_.state());
  });
  mirror_.assume_lost(planner_.desired());
  turn.scope.rules.insert(unsettled_rules_.begin(), unsettled_rules_.end());
  if (turn.parts.empty()) turn.parts.emplace_back();
  apply(completed(std::move(turn.scope)), now, pass, turn.parts);
}

// `parts`: of whose changes the scope was made. Weights that were held may be free afterwards: the
// scheduler or the thresholds are as planned.
void Reconciler::apply(plan::Scope scope, TimePoint now, Pass& pass,
                       const std::vector<Turns::Part>& parts) {
  auto again = apply_once(std::move(scope), now, pass, parts);
  if (again.services.empty()) return;
  if (others_wait())
    queue(std::move(again), Turns::Name{});
  else
    apply_once(std::move(again), now, pass, parts);
}

// A turn ended early: each Service waits again with what it had to compare. With the failures of
// others and the rules, completed() completes that again.
void Reconciler::put_back(const plan::Scope& scope, const std::vector<Turns::Part>& parts,
                          const plan::Scope& failed) {
  if (parts.size() == 1) return turns_.put(parts.front().service, rest_of(scope, failed));
  for (const auto& [service, part] : parts) {
    auto rest = part;
    rest.merge(planner_.scope_of(service));
    rest.rules = scope.rules;
    turns_.put(service, rest_of(std::move(rest), failed));
  }
}

// Returns what is to be compared again, as something was written.
plan::Scope Reconciler::apply_once(plan::Scope scope, TimePoint now, Pass& pass,
                                   const std::vector<Turns::Part>& parts) {
  auto transaction = plan::diff(planner_.desired(), mirror_.state(), scope);
  if (turns_.empty())
    unsettled_rules_.clear();
  else if (plan::keep_old_rules(transaction))
    unsettled_rules_.insert(scope.rules.begin(), scope.rules.end());
  const auto left_out = scheduler_changes_.hold(transaction, mirror_.state(), planner_);
  if (!transaction.empty()) drain_.yield(now);
  const auto most = most_in_turn(transaction, parts);
  const auto held_weights = std::exchange(transaction.held_weights, {});
  auto outcome = execute(std::move(transaction), now, pass, [&](std::size_t tried) {
    return tried + Applier::kPart > most && others_wait();
  });
  note_drains(scope.services, now);
  if (outcome.paused) {
    auto failed = failed_in(outcome);
    put_back(scope, parts, failed);
    scope = std::move(failed);  // of all else nothing new is known
  }
  // Nothing is known yet of what was left out.
  for (const auto& key : left_out) scope.services.erase(key);
  retries_.note(scope, outcome.unsettled, now);
  refusals_.note(scope, outcome.refused, planner_, now);
  plan::Scope again;
  if (!outcome.paused && outcome.tried > 0 && !pass.stop.stop_requested())
    for (const auto& key : held_weights)
      if (!outcome.unsettled.services.contains(key)) again.services.insert(key);
  return again;
}

Outcome Reconciler::execute(plan::Transaction transaction, TimePoint now, Pass& pass,
                            const Applier::Pause& pause) {
  trash_.hold(transaction, mirror_.state(), planner_, now);
  if (!transaction.empty() && logger_.should_log(spdlog::level::debug))
    tell_operations(plan::to_text(transaction), logger_);
  flows_.note(transaction, mirror_.state());
  reading_.parts.note(transaction);
  auto outcome = Applier(kernel_, mirror_, settings_.progress, pause).apply(transaction, pass.stop);
  if (outcome.paused) trash_.give_back(transaction, mirror_.state(), planner_);
  pass.written += outcome.written;
  pass.failed += outcome.failed;
  pass.rules_failed.merge(outcome.rules_failed);
  pass.suspect = pass.suspect || outcome.suspect;
  if (!outcome.existing.empty()) meet_foreign(outcome.existing, transaction);
  append(pass.failures, std::exchange(outcome.failures, {}));
  append(pass.held, std::exchange(outcome.held, {}));
  if (!outcome.without_scheduler.empty()) {
    pass.problems.push_back(unknown_scheduler(settings_, outcome.without_scheduler));
    schedulers_.doubt();
  }
  return outcome;
}

// The next run plans their Services again, soon, as such an answer is suspect.
void Reconciler::meet_foreign(const std::set<netlink::VirtualServiceKey>& existing,
                              const plan::Transaction& transaction) {
  auto foreign = plan::foreign_among(existing, transaction, planner_.desired(), mirror_.state());
  mirror_.take([&](plan::ActualState& state) { state.foreign.merge(foreign); });
  touched_.merge(planner_.set_foreign(mirror_.state().foreign, cluster_));
}

}  // namespace ipvsproxier::sync
