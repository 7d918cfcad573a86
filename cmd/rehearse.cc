#include "cmd/rehearse.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "cmd/kernel_tables.h"
#include "cmd/node_check.h"
#include "netlink/kernel_module.h"
#include "proxier/sync/reconciler.h"

namespace ipvsproxier::cmd {

namespace {

using sync::Area;

// Whether a written setting is a step of its own. IPVS timeouts are already noted by the table.
// Outside the first network namespace conntrack's hash size seems writable, although
// nf_conntrack_max is not.
bool is_told(const std::string& what, const sync::HostReport& report) {
  const auto is_max = [](const sync::Failure& warning) {
    return warning.what.find("nf_conntrack_max") != std::string::npos;
  };
  const auto& warnings = report.warnings;
  if (what.find("hashsize") != std::string::npos)
    return std::none_of(warnings.begin(), warnings.end(), is_max);
  return what != "IPVS timeouts";
}

// The settings of the host come first.
void rehearse_host(sync::ReconcilerSettings& settings, sync::Rehearsal& rehearsal,
                   Rehearsed& result, spdlog::logger& logger) {
  auto host = std::exchange(settings.host, std::nullopt);
  if (!host) return;
  constexpr auto kAccess = netlink::Sysctl::Access::rehearse;
  host->paths = {.sysctls = netlink::Sysctl("/proc/sys", kAccess),
                 .module_parameters = netlink::Sysctl("/sys/module", kAccess)};
  const auto report = sync::prepare_host(*host, rehearsal.kernel().ipvs);
  for (const auto& what : report.written)
    if (is_told(what, report)) rehearsal.note({.area = Area::host, .what = "set " + what});
  const bool loaded = netlink::module_present("ip_vs") && netlink::module_present("nf_conntrack");
  for (const auto* list : {&report.failures, &report.warnings})
    for (const auto& failure : *list) {
      // The key appears once the modules are loaded.
      if (!loaded && failure.error.kind == netlink::ErrorKind::missing) {
        rehearsal.note({.area = Area::host, .what = failure.what});
        continue;
      }
      logger.warn("{}: {}", failure.what, netlink::to_string(failure.error));
      result.complete = result.complete && list != &report.failures;
    }
}

// "shop/web:http/TCP"
std::string port_name(const api::Service& service, const netlink::VirtualServiceKey& key,
                      plan::Facet facet) {
  const bool by_node_port = facet == plan::Facet::node_port;
  for (const auto& port : service.ports)
    if (port.protocol == key.protocol && (by_node_port ? port.node_port : port.port) == key.port)
      return api::to_string(api::ServicePortName{service.name, port.name, port.protocol});
  return api::to_string(service.name);
}

void name_services(const sync::Inspection& inspection, Rehearsed& result) {
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
                                         plan::to_string(facet)));
  }
}

}  // namespace

netlink::Result<Rehearsed> rehearse(const Wanted& wanted, spdlog::logger& logger) {
  const auto tables = open_tables_to_read();
  auto settings = host_reconciler_settings(wanted.options, tables, logger);
  settings.remove_nft_leftovers = {};
  const auto node = wanted.objects.node.value_or(std::nullopt);
  if (!fits_node(wanted.options, settings.options.families, node, logger) ||
      lacks_pod_cidrs(wanted.options, node, logger))
    return netlink::Error{netlink::ErrorKind::malformed, 0,
                          "the configuration does not fit this node"};
  Rehearsed result;
  sync::Rehearsal rehearsal({.ipvs = tables.ipvs.get(),
                             .links = tables.links.get(),
                             .sets = tables.sets.get(),
                             .rules = tables.rules.get()});
  for (const char* module : {"ip_vs", "ip_set"})
    if (!netlink::module_present(module))
      rehearsal.note({.area = Area::host,
                      .change = sync::Change::add,
                      .what = std::string("module ") + module});
  rehearse_host(settings, rehearsal, result, logger);
  sync::Reconciler reconciler(rehearsal.kernel(), std::move(settings), logger);
  sync::SyncInput input;
  input.changes = wanted.objects;
  reconciler.take(std::move(input));
  const auto report = reconciler.run_to_end(std::chrono::steady_clock::now());
  result.complete = result.complete && report.failures == 0;
  result.steps = rehearsal.steps();
  reconciler.answer({[&](const auto& inspection) { name_services(inspection, result); }},
                    std::chrono::steady_clock::now());
  return result;
}

}  // namespace ipvsproxier::cmd
