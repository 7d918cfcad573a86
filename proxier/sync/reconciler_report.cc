// Reconciler: what a run tells, and logs.

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "proxier/sync/reconciler.h"

namespace ipvsproxier::sync {

void Reconciler::log_whats_left(TimePoint now, const Pass& pass, bool settled) {
  const auto next = due_by_time();
  const bool again = next != TimePoint::max() && !pass.failures.empty() && !pass.last;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::max(next, now) - now);
  log_.tell(pass, pass.whole && settled,
            again ? fmt::format("trying again in {} ms", wait.count()) : "", now);
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

void Reconciler::note_standing(const SyncReport& report, std::chrono::nanoseconds took) {
  const auto now = std::chrono::system_clock::now();
  standing_.settled = report.settled;
  if (report.whole && report.settled) standing_.agreed = now;
  if (report.empty()) return;
  standing_.last_sync = now;
  standing_.last_took = took;
}

SyncReport Reconciler::finish(TimePoint now, Pass& pass) {
  auto planned = planner_.problems();
  std::move(planned.begin(), planned.end(), std::back_inserter(pass.problems));
  if (pass.whole && !pass.dry) host_.look(cluster_, settings_.options, settings_.node_name);
  std::ranges::copy(host_.problems(), std::back_inserter(pass.problems));
  schedule_.note(now, pass.suspect, pass.whole);

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
  report.flows_unreadable = flows_.unreadable().has_value();
  if (report.flows_unreadable && (pass.whole || !pass.purges.empty()))
    pass.warnings.push_back(*flows_.unreadable());
  report.firewall_drops = firewall_.drops();
  report.repairs = pass.repairs;
  report.draining = drain_.size();
  report.doubted = holding_.doubted_count(planner_.desired());
  report.whole = pass.whole;
  // Work that waits for its turn is no fault, unless it is the node's own.
  const bool sure =
      has_mirror() && schedule_.is_trusted() && touched_.empty() && !turns_.contains(Turns::Name{});
  report.unfinished = has_turns();
  refusals_.judge(planner_, now);
  report.refused = refusals_.all().size();
  // All problems are gone through, so not for each change.
  if (pass.whole) report.lacking = lacking_services(pass.problems, refusals_).size();
  for (const auto family : settings_.options.families) {
    report.refusals[family] = refusals_.counts(family);
    report.refusals[family].by_foreign = planner_.meet_foreign(family);
    if (sure) (is_well(family, pass) ? report.well : report.ill).insert(family);
    if (report.ill.contains(family) && is_aside(family)) report.aside.insert(family);
  }
  report.settled = sure && turns_.empty() && !scheduler_changes_.waiting() &&
                   report.well.size() == settings_.options.families.size();
  log_whats_left(now, pass, report.settled);
  if (has_mirror()) {
    tell_node_ips(now);
    const auto waiting = retries_.all();
    report.health = health_.take(cluster_, planner_, settings_.node_name, waiting, sure, turns_);
    report.programmed = triggers_.take(planner_, waiting, sure, turns_);
  }
  for (const auto& problem : pass.problems)
    report.problems += problem.severity == api::Severity::error ? 1 : 0;
  const bool asked = std::exchange(asked_, false);
  report.figures = pass.figures;
  report.reading = (reading() || pass.figures) && !pass.whole && !asked && report.failures == 0 &&
                   report.repairs == 0 && report.written == Written{} && report.flows == 0;
  return report;
}

}  // namespace ipvsproxier::sync
