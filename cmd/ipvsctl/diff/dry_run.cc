#include "cmd/ipvsctl/diff/dry_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "cmd/kernel_tables.h"
#include "cmd/log.h"
#include "cmd/node_check.h"
#include "ipset/nft/nft_leftovers.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/removal_catalog.h"
#include "ipset/sets/set_catalog.h"
#include "netlink/kernel_module.h"
#include "proxier/plan/diff.h"
#include "proxier/plan/localhost.h"
#include "proxier/plan/wrr_steps.h"
#include "proxier/sync/drain.h"
#include "proxier/sync/reconciler.h"
#include "proxier/sync/take_over.h"

namespace ipvsproxier::ctl {

namespace {

using sync::Failure;

// Whether a written setting is a step. Outside the first network namespace conntrack's hash size
// seems writable, although nf_conntrack_max is not.
bool is_told(const std::string& what, const sync::HostReport& report) {
  if (what.find("hashsize") == std::string::npos) return true;
  return std::none_of(report.warnings.begin(), report.warnings.end(), [](const Failure& warning) {
    return warning.what.find("nf_conntrack_max") != std::string::npos;
  });
}

// "shop/web:http/TCP"
std::string port_name(const api::Service& service, const netlink::VirtualServiceKey& key,
                      plan::Facet facet) {
  const bool by_node_port = is_of_node_port(facet);
  for (const auto& port : service.ports)
    if (port.protocol == key.protocol && (by_node_port ? port.node_port : port.port) == key.port)
      return api::to_string(api::ServicePortName{service.name, port.name, port.protocol});
  return api::to_string(service.name);
}

void name_services(const sync::Inspection& inspection, DryRun& result) {
  const auto& services = inspection.planner.desired().services;
  for (const auto& step : result.steps) {
    if (!step.service) continue;
    const auto it = services.find(*step.service);
    const auto* owner = inspection.planner.owner_of(*step.service);
    if (it == services.end() || owner == nullptr) continue;
    const auto service = inspection.cluster.services.find(*owner);
    if (service == inspection.cluster.services.end()) continue;
    const auto facet = it->second.facet;
    result.names.try_emplace(*step.service,
                             fmt::format("{}, {}", port_name(service->second, *step.service, facet),
                                         ipset::to_string(facet)));
  }
}

void commit(const plan::Transaction& transaction, plan::ActualState& state) {
  const auto commit_each = [&](const auto& work) {
    for (const auto& one : work) {
      if constexpr (requires { one.ops; })
        for (const auto& op : one.ops) state.commit(one.set, op);
      else
        state.commit(one);
    }
  };
  for (const auto& phase : transaction.phases) std::visit(commit_each, phase.work);
}

// One dry run: steps are added in the order in which the daemon would do them.
class Runner {
 public:
  Runner(const cmd::KernelTables& tables, spdlog::logger& logger)
      : tables_(tables), logger_(logger) {}

  DryRun take() { return std::move(result_); }

  void look_at_modules() {
    const auto look_at = [this](const char* module) {
      if (!netlink::kernel_has_module(module).value_or(true))
        tell(Area::host, Change::add, std::string("module ") + module);
    };
    look_at("ip_vs");
    if (tables_.chosen.filter == ipset::PacketFilter::iptables) look_at("ip_set");
  }

  void look_at_host(std::optional<sync::HostSetup> host) {
    if (!host) return;
    constexpr auto kAccess = netlink::Sysctl::Access::dry_run;
    host->paths = {.sysctls = netlink::Sysctl("/proc/sys", kAccess),
                   .module_parameters = netlink::Sysctl("/sys/module", kAccess)};
    const auto report = sync::prepare_host(*host, *tables_.ipvs, sync::HostPass::dry_run);
    for (const auto& what : report.written)
      if (is_told(what, report)) tell(Area::host, Change::change, "set " + what);
    const bool loaded = netlink::kernel_has_module("ip_vs").value_or(true) &&
                        netlink::kernel_has_module("nf_conntrack").value_or(true);
    for (const auto* list : {&report.failures, &report.warnings})
      for (const auto& failure : *list) {
        // The key appears once the modules are loaded.
        if (!loaded && failure.error.kind == netlink::ErrorKind::missing)
          tell(Area::host, Change::change, failure.what);
        else
          fail(failure, list == &report.failures);
      }
  }

  void look_at_links() {
    auto links = tables_.links->list_links();
    if (!links) return fail({"list links", std::move(links.error()), {}});
    links_.insert(links->begin(), links->end());
    if (links_.insert(plan::kDummyLink).second)
      tell(Area::links, Change::add, std::string("dummy link ") + plan::kDummyLink);
  }

  // Of node ports on localhost, which a reconciler makes before anything else.
  void look_at_loop(const plan::PlannerOptions& options) {
    const auto spec = plan::localhost_links(options.families);
    if (!options.serves_localhost()) {
      if (links_.contains(spec.first) && links_.contains(spec.second) &&
          tables_.links->ensure_loop(spec, true))
        tell(Area::links, Change::remove, fmt::format("links {} and {}", spec.first, spec.second));
      return;
    }
    // What is in the way is told with the problems.
    const auto report = tables_.links->ensure_loop(spec, true);
    if (!report) return;
    for (const auto& what : report->written)
      tell(Area::links, what.starts_with("links") ? Change::add : Change::change, what);
  }

  // What a daemon left that ended while it replaced a set.
  void look_at_copy() {
    const auto left = tables_.sets->list(ipset::kCopyName);
    if (left && *left) tell(Area::sets, Change::remove, std::string("set ") + ipset::kCopyName);
  }

  // Plans and compares. `inspection.kernel` was just read.
  void look_at_state(const sync::Inspection& inspection, const sync::DrainTimes& times) {
    const auto& desired = inspection.planner.desired();
    auto actual = inspection.kernel;
    set_aside_iptables_mode(actual);
    const auto transaction = plan::diff(desired, actual);
    perform(transaction, actual);
    if (!transaction.held_weights.empty()) perform(plan::diff(desired, actual), actual);
    drain(desired, times, actual);
    if (desired.complete) {
      settle_destinations(desired);
      remove_iptables_mode();
      remove_nft_leftovers();
      remove_other_filter();
    }
    cmd::log_problems(inspection.planner.problems(), logger_);
    name_services(inspection, result_);
  }

  void fail(const Failure& failure, bool incomplete = true) {
    logger_.warn("{}: {}", failure.what, netlink::to_string(failure.error));
    result_.complete = result_.complete && !incomplete;
  }

 private:
  void tell(Area area, Change change, std::string what) {
    result_.steps.push_back(
        {.area = area, .change = change, .what = std::move(what), .service = {}});
  }

  void perform(const plan::Transaction& transaction, plan::ActualState& actual) {
    auto steps = steps_of(transaction, actual, links_);
    std::move(steps.begin(), steps.end(), std::back_inserter(result_.steps));
    commit(transaction, actual);
  }

  // Real servers with weight 0 go once they are idle, and virtual services after their last one.
  void drain(const plan::DesiredState& desired, const sync::DrainTimes& times,
             plan::ActualState& actual) {
    if (!actual.services) return;
    const auto now = std::chrono::steady_clock::now();
    sync::Drain drain(times);
    const auto look_at = [&](const netlink::VirtualServiceKey& key) {
      const bool deleted = !desired.services.contains(key);
      drain.set(key, plan::draining(desired, actual, key), deleted, now);
    };
    for (const auto& [key, service] : *actual.services) look_at(key);
    if (drain.size() == 0) return;
    std::vector<Failure> failures;
    do {
      auto removals = drain
                          .step(
                              *tables_.ipvs, now, [](const auto&) { return true; }, failures)
                          .removals;
      plan::ServiceKeySet services;
      for (const auto& op : removals) services.insert(netlink::service_of(op));
      if (!removals.empty())
        perform({.phases = {{"remove drained real servers", std::move(removals)}},
                 .sent_on = {},
                 .ways = {},
                 .old_ways = {},
                 .held_weights = {}},
                actual);
      for (const auto& key : services) {
        look_at(key);
        const auto planned = desired.services.find(key);
        if (planned == desired.services.end())
          perform(plan::diff(desired, actual, plan::scope_of(key)), actual);
        else if (plan::has_wrr_walks(planned->second))
          perform(plan::diff(desired, actual, plan::Scope{.services = {key}}), actual);
      }
    } while (drain.running());
    for (const auto& failure : failures) fail(failure);
  }

  // Chains of kube-proxy's iptables mode whose names we need are not compared with ours.
  void set_aside_iptables_mode(plan::ActualState& actual) {
    const auto move = ipset::services_move();
    for (const auto& surplus : iptables_mode(ipset::Table::nat)) {
      auto moved = tables_.rules->set_aside(move, surplus);
      if (!moved) {
        fail({"rules of kube-proxy's iptables mode", std::move(moved.error()), surplus.family});
        continue;
      }
      if (!*moved) continue;
      if (const auto rules = actual.rules.find({surplus.family, surplus.table});
          rules != actual.rules.end())
        std::erase_if(rules->second.chains,
                      [&](const ipset::Chain& chain) { return chain.name == move.jump.to; });
      tell(Area::rules, Change::change,
           fmt::format("{} {}: chain {} of iptables mode serves as {} until all is programmed",
                       netlink::to_string(surplus.family), ipset::to_string(surplus.table),
                       move.jump.to, move.aside));
    }
  }

  // Until all is programmed kube-proxy's rules serve.
  void settle_destinations(const plan::DesiredState& desired) {
    for (const auto& [family, parameters] : desired.rules)
      if (!parameters.keep_destinations)
        tell(Area::rules, Change::change,
             fmt::format("{} {}: destinations are kept, so that kube-proxy's rules change none",
                         netlink::to_string(family), ipset::to_string(ipset::Table::kube_ipvs)));
  }

  void remove_iptables_mode() {
    for (const auto& removal : iptables_mode(std::nullopt)) {
      auto removed = tables_.rules->remove(removal);
      if (!removed)
        fail({"rules of kube-proxy's iptables mode", std::move(removed.error()), removal.family});
      else if (removed->chains + removed->jumps > 0)
        tell(Area::rules, Change::remove,
             fmt::format("{} {}: {} chains and {} jumps of kube-proxy's iptables mode",
                         netlink::to_string(removal.family), ipset::to_string(removal.table),
                         removed->chains, removed->jumps));
    }
  }

  void remove_nft_leftovers() {
    for (const auto family : netlink::kFamilies) {
      const auto found = ipset::take_over_nft_leftovers(*tables_.nftables, family);
      if (!found) {
        fail({"what kube-proxy left in nf_tables", found.error(), family});
        continue;
      }
      const auto name = netlink::to_string(family);
      if (found->table)
        tell(Area::rules, Change::remove,
             fmt::format("{} nf_tables: the table of kube-proxy's nftables mode", name));
      if (found->chains + found->jumps > 0)
        tell(Area::rules, Change::remove,
             fmt::format("{} nf_tables: {} chains and {} jumps of a kube-proxy with iptables-nft",
                         name, found->chains, found->jumps));
      for (const auto& chain : found->held_back)
        result_.notes.push_back(
            fmt::format("{}, which stays, for it accepts what its table drops by policy", chain));
    }
  }

  // What is ours in the packet filter that is not used goes last.
  void remove_other_filter() {
    const auto other = tables_.kernel().other;
    if (!other) return;
    for (const auto family : netlink::kFamilies) {
      for (const auto& removal : sync::removals_from(other->filter, family)) {
        auto removed = other->rules->remove(removal);
        if (!removed)
          fail({fmt::format("our rules in {}", to_string(other->filter)),
                std::move(removed.error()), family});
        else if (removed->chains + removed->jumps > 0)
          tell(Area::rules, Change::remove,
               fmt::format("{} {}: {} chains and {} jumps in {}, which is not used",
                           netlink::to_string(family), ipset::to_string(removal.table),
                           removed->chains, removed->jumps, to_string(other->filter)));
      }
      if (other->sets == nullptr) continue;
      for (const auto id : ipset::sets_of(other->filter)) {
        const auto name = ipset::set_name(id, family);
        auto left = other->sets->list(name);
        if (!left)
          fail({"list set " + name, std::move(left.error()), family});
        else if (*left)
          tell(Area::sets, Change::remove, "set " + name);
      }
    }
  }

  static std::vector<ipset::RuleRemoval> iptables_mode(std::optional<ipset::Table> only) {
    std::vector<ipset::RuleRemoval> all;
    for (const auto family : netlink::kFamilies)
      for (auto& removal : ipset::iptables_mode_removals(family))
        if (!only || removal.table == *only) all.push_back(std::move(removal));
    return all;
  }

  const cmd::KernelTables& tables_;
  spdlog::logger& logger_;
  std::set<std::string> links_;
  DryRun result_;
};

}  // namespace

netlink::Result<DryRun> dry_run(const PlanInput& input, spdlog::logger& logger) {
  const auto opened = cmd::open_tables_to_read(input.options, logger);
  if (!opened) return opened.error();
  const auto& tables = *opened;
  auto settings = cmd::host_reconciler_settings(input.options, tables, logger);
  const auto node = input.objects.node.value_or(std::nullopt);
  if (!cmd::fits_node(input.options, settings.options.families, node, logger) ||
      cmd::lacks_pod_cidrs(input.options, node, logger))
    return netlink::Error{netlink::ErrorKind::malformed, 0,
                          "the configuration does not fit this node"};
  Runner runner(tables, logger);
  runner.look_at_modules();
  runner.look_at_host(std::exchange(settings.host, std::nullopt));
  runner.look_at_links();
  runner.look_at_loop(settings.options);
  runner.look_at_copy();
  const auto times = settings.drain;
  sync::Reconciler reconciler(tables.kernel(), std::move(settings), logger);
  sync::SyncInput objects;
  objects.changes = input.objects;
  reconciler.take(std::move(objects));
  const auto failures = reconciler.read_and_plan();
  for (const auto& failure : failures) runner.fail(failure);
  reconciler.answer({[&](const auto& inspection) { runner.look_at_state(inspection, times); }},
                    std::chrono::steady_clock::now());
  return runner.take();
}

}  // namespace ipvsproxier::ctl
