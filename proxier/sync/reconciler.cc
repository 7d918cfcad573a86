#include "proxier/sync/reconciler.h"

#include <chrono>
#include <map>
#include <utility>

#include "proxier/plan/diff.h"
#include "proxier/sync/kernel_state.h"

namespace ipvsproxier::sync {

namespace {

api::Problem unknown_scheduler(const SyncRequest& request,
                               const std::vector<netlink::VirtualServiceKey>& keys) {
  std::string list;
  for (const auto& key : keys) list += (list.empty() ? "" : ", ") + to_string(key);
  const auto& name = request.options.scheduler;
  return {.severity = api::Severity::error,
          .origin = request.config_origin,
          .object = "KubeProxyConfiguration",
          .field = "ipvs.scheduler",
          .message = "this kernel has no IPVS scheduler \"" + name + "\" (module ip_vs_" + name +
                     "); choose another or install the module; not programmed: " + list};
}

}  // namespace

bool Reconciler::ensure_dummy(Pass& pass) {
  auto created = kernel_.links.ensure_dummy(plan::kDummyLink);
  if (created) {
    pass.written.links += *created ? 1 : 0;
    return true;
  }
  pass.failures.push_back({std::string("make link ") + plan::kDummyLink, created.error()});
  return false;
}

Reconciler::Pass Reconciler::run_pass(const SyncRequest& request) {
  Pass pass;
  const bool dummy_usable = ensure_dummy(pass);
  auto addresses = kernel_.links.list_addresses();
  if (!addresses) {
    // Without this node's addresses every answer would be a guess.
    pass.failures.push_back({"list this node's addresses", std::move(addresses.error())});
    return pass;
  }
  const auto node =
      plan::node_info(request.node_name, request.cluster.node, request.bind_address, *addresses);
  auto planned = plan::plan(request.cluster, node, request.options);
  pass.problems = std::move(planned.problems);

  auto reading = read_kernel(kernel_, planned.state, *addresses, dummy_usable);
  const auto transaction = plan::diff(planned.state, reading.state);
  logger_.debug("transaction:\n{}", plan::to_text(transaction));
  auto outcome = Applier(kernel_).apply(transaction);

  pass.written += outcome.written;
  if (!outcome.without_scheduler.empty())
    pass.problems.push_back(unknown_scheduler(request, outcome.without_scheduler));
  pass.held = std::move(outcome.held);
  for (auto* list : {&reading.failures, &outcome.failures})
    std::move(list->begin(), list->end(), std::back_inserter(pass.failures));
  return pass;
}

// Operations that failed for the same reason share a line.
void Reconciler::log(const Pass& pass) {
  for (const auto& problem : pass.problems)
    logger_.log(problem.severity == api::Severity::error ? spdlog::level::err : spdlog::level::warn,
                "{}", api::to_string(problem));
  std::map<std::string, std::string> by_reason;
  for (const auto& failure : pass.failures) {
    auto& list = by_reason[netlink::to_string(failure.error)];
    list += (list.empty() ? "" : ", ") + failure.what;
  }
  for (const auto& [reason, list] : by_reason) logger_.error("{}: not done: {}", reason, list);
  std::string held;
  for (const auto& what : pass.held) held += (held.empty() ? "" : ", ") + what;
  if (!held.empty()) logger_.error("not tried because of the failures above: {}", held);
}

SyncReport Reconciler::sync(const SyncRequest& request) {
  constexpr int kPasses = 3;
  Pass pass;
  Written written;
  std::vector<Failure> before;
  for (int i = 0; i < kPasses; ++i) {
    before = std::exchange(pass.failures, {});
    pass = run_pass(request);
    written += pass.written;
    if (pass.failures.empty() || pass.failures == before) break;
    logger_.info("{} operations failed, reading the kernel again", pass.failures.size());
  }
  log(pass);

  SyncReport report;
  report.written = written;
  report.failures = pass.failures.size() + pass.held.size();
  for (const auto& problem : pass.problems)
    report.problems += problem.severity == api::Severity::error ? 1 : 0;
  return report;
}

}  // namespace ipvsproxier::sync
