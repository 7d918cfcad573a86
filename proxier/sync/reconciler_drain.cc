// Real servers that leave with weight 0.

#include <chrono>
#include <optional>
#include <utility>

#include "proxier/plan/diff.h"
#include "proxier/plan/wrr_steps.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

void Reconciler::note_drains(const plan::ServiceKeySet& services, TimePoint now) {
  const auto& kernel = mirror_.state();
  if (!kernel.services) return;
  trash_.note(services, planner_.desired(), kernel, planner_);
  for (const auto& key : services) {
    const auto planned = planner_.desired().services.find(key);
    if (planned != planner_.desired().services.end()) {
      const auto& timeout = planned->second.drain_timeout;
      drain_.set_timeout(
          key, timeout ? std::optional(std::chrono::milliseconds(*timeout)) : std::nullopt);
    }
    const auto it = kernel.services->find(key);
    if (it == kernel.services->end() || it->second.servers)
      drain_.set(key, plan::draining(planner_.desired(), kernel, key),
                 planned == planner_.desired().services.end(), now);
    if (it == kernel.services->end() && planned == planner_.desired().services.end())
      drain_.set_timeout(key, std::nullopt);
  }
}

void Reconciler::drain(TimePoint now, Pass& pass) {
  if (drain_.size() == 0) return;
  auto [removals, surprise, silent] = drain_.step(
      kernel_.ipvs, now,
      [&](const auto& service) { return trash_.has_room(service, planner_, now); }, pass.failures);
  pass.suspect = pass.suspect || surprise;
  if (removals.empty()) return;
  plan::ServiceKeySet services;
  for (const auto& op : removals) services.insert(netlink::service_of(op));
  plan::Transaction transaction;
  transaction.phases.push_back({"remove drained real servers", std::move(removals)});
  // The next pass looks again at failed removals.
  execute(std::move(transaction), now, pass, {});
  note_drains(services, now);
  plan::Scope changed;
  for (const auto& key : services) {
    const auto planned = planner_.desired().services.find(key);
    if (planned == planner_.desired().services.end())
      changed.merge(plan::scope_of(key));
    else if (plan::has_wrr_walks(planned->second))
      changed.services.insert(key);  // with fewer real servers weights may be higher
  }
  if (!changed.empty()) apply(completed(std::move(changed)), now, pass);
}

}  // namespace ipvsproxier::sync
