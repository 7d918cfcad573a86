// Reconciler: whether a family is as desired, and whether a take-over may end.

#include <algorithm>

#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

// Whether all virtual services, real servers and addresses of the family are in the kernel, except
// refusals because of an object. False if nothing serves because of refusals: then no object is the
// cause.
bool Reconciler::has_all(netlink::Family family) const {
  const auto& kernel = mirror_.state();
  if (refusals_.too_many(family) || !kernel.services || !kernel.addresses) return false;
  const auto& desired = planner_.desired();
  bool some_serve = false;
  bool some_refused = false;
  for (const auto& [key, planned] : desired.services) {
    if (key.address.family() != family) continue;
    const auto actual = kernel.services->find(key);
    const auto* servers = actual != kernel.services->end() && actual->second.servers
                              ? &*actual->second.servers
                              : nullptr;
    const bool is_whole =
        servers != nullptr &&
        std::all_of(planned.servers.begin(), planned.servers.end(),
                    [&](const auto& server) { return servers->contains(server); });
    const bool is_bound =
        !desired.addresses.contains(key.address) || kernel.addresses->contains(key.address);
    if (!is_whole && !refusals_.contains(key)) return false;
    if (!is_bound && !refusals_.contains(key.address)) return false;
    const bool serves = is_bound && servers != nullptr && (is_whole || !servers->empty());
    if (!serves)
      some_refused = true;
    else if (desired.addresses.contains(key.address))  // a node port needs no bound address
      some_serve = true;
  }
  return some_serve || !some_refused;
}

// As kube-proxy's rules come after ours, destinations that ours settle are not translated any more.
void Reconciler::look_for_translation() {
  if (!settings_.find_translation) return;
  for (const auto family : settings_.options.families)
    planner_.keep_destinations(family, !settings_.find_translation(family).value_or(true));
}

// Returns the families whose rules are to be others than before.
std::set<netlink::Family> Reconciler::look_for_flow_rules(TimePoint now) {
  auto change = flow_guard_.look(kernel_.rules, planner_, now);
  for (const auto family : change.guarded) flows_.note_offloaded(family, now);
  return std::move(change.rules);
}

// What others have in the packet filter. Flowtables come first: each answer that one forwards costs
// a connection.
void Reconciler::look_at_others(TimePoint now, Pass& pass) {
  if (flow_guard_.is_due(now)) {
    auto rules = look_for_flow_rules(now);
    if (!rules.empty())
      apply({.services = {}, .addresses = {}, .elements = {}, .rules = std::move(rules)}, now,
            pass);
    purge_flows(now, pass);
  }
  if (!firewall_.is_due(now)) return;
  firewall_.look(planner_.desired(), now);
  settings_.progress();
}

void Reconciler::settle_destinations(netlink::Family family, TimePoint now) {
  const auto rules = planner_.desired().rules.find(family);
  if (rules == planner_.desired().rules.end() || rules->second.keep_destinations) return;
  if (settings_.find_translation(family).value_or(true)) return;
  planner_.keep_destinations(family, true);
  Pass pass;
  apply({.services = {}, .addresses = {}, .elements = {}, .rules = {family}}, now, pass);
  log_whats_left(now, pass, false);
}

// Removes the other modes' rules once the kernel has everything that is desired. A long failure
// must not keep outdated rules for ever: after some time it is enough that traffic is served.
void Reconciler::take_over(TimePoint now, const SyncReport& report) {
  if (!report.whole || !has_mirror() || !cluster_.complete) return;
  const auto& ours = settings_.options.families;
  // Of those whose translation was still there, or could not be told, when the take-over ended.
  for (const auto family : ours)
    if (!take_over_.pending(family)) settle_destinations(family, now);
  if (!take_over_.pending()) return;
  const bool late = now >= first_whole_ + settings_.sync_period;
  for (const auto family : netlink::kFamilies) {
    if (!take_over_.pending(family)) continue;
    const bool is_ours = std::find(ours.begin(), ours.end(), family) != ours.end();
    const bool well = is_ours ? report.well.contains(family) : report.settled;
    if (!(well || late) || !has_all(family)) continue;
    take_over_.finish(family);
    settle_destinations(family, now);
  }
  if (!kernel_.other || take_over_.pending()) return;
  // They told what was ours when this process began.
  mirror_.take([this](plan::ActualState& state) {
    for (const auto id : ipset::sets_of(kernel_.other->filter))
      for (const auto family : netlink::kFamilies) state.sets.erase({family, id});
  });
}

// Whether at least one Service address of the family is in the kernel with its virtual service, or
// none is desired.
bool Reconciler::any_serves(netlink::Family family) const {
  const auto& kernel = mirror_.state();
  if (!kernel.services || !kernel.addresses) return false;
  const auto& desired = planner_.desired();
  bool any = false;
  for (const auto& [key, planned] : desired.services) {
    if (key.address.family() != family || !desired.addresses.contains(key.address)) continue;
    any = true;
    if (kernel.services->contains(key) && kernel.addresses->contains(key.address)) return true;
  }
  return !any;
}

// Whether nothing of the family serves, and the Node has addresses of the other family alone.
bool Reconciler::is_aside(netlink::Family family) const {
  const auto& families = settings_.options.families;
  return !node_ips_.knows(family) &&
         std::ranges::any_of(families, [&](auto other) { return node_ips_.knows(other); }) &&
         !any_serves(family);
}

// Whether nothing of the family waits for a retry, except refusals because of an object. If
// everything is refused, no object is the cause.
bool Reconciler::is_well(netlink::Family family, const Pass& pass) const {
  const auto concerns = [family](const Failure& failure) {
    return failure.family.value_or(family) == family;
  };
  if (!refusals_.all().empty() && !any_serves(family)) return false;
  return !host_.failed() && !refusals_.too_many(family) && !retries_.waits(family) &&
         std::none_of(pass.failures.begin(), pass.failures.end(), concerns);
}

}  // namespace ipvsproxier::sync
