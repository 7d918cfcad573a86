#include "proxier/plan/granted_settings.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::plan {

namespace {

using model::ServiceSettings;

// Of each virtual service.
std::size_t table_of(std::string_view scheduler) {
  if (scheduler == "mh") return std::size_t{32} << 10U;
  return scheduler.starts_with("lblc") ? std::size_t{16} << 10U : 0;
}

// Of both families; a node port counts once in each, whatever addresses the node has.
std::size_t count_virtual_services(const api::Service& service) {
  const auto addresses =
      service.cluster_ips.size() + service.external_ips.size() + service.load_balancer_ips.size();
  std::size_t count = 0;
  for (const auto& port : service.ports)
    count += addresses + (port.node_port != 0 ? service.cluster_ips.size() : 0);
  return count;
}

// Of the scheduler that an annotation asks for.
std::size_t bytes_for(const api::Service& service, const ServiceSettings& settings,
                      const PlannerOptions& options) {
  const auto each = settings.scheduler == options.scheduler ? 0 : table_of(settings.scheduler);
  return each == 0 ? 0 : each * count_virtual_services(service);
}

}  // namespace

std::size_t table_bytes_of(const api::Service& service, const model::ParsedSettings& asked,
                           const FamilyNode& node, const PlannerOptions& options) {
  const auto& settings = asked.settings;
  if (!options.differences.service_annotations || settings.scheduler.empty()) return 0;
  if (node.absent_schedulers.contains(settings.scheduler)) return 0;
  const auto bytes = bytes_for(service, settings, options);
  return bytes <= kTablesOfOneService ? bytes : 0;
}

model::ParsedSettings granted_settings(const api::Service& service,
                                       const model::ParsedSettings& asked, const FamilyNode& node,
                                       const PlannerOptions& options) {
  if (!options.differences.service_annotations) return {};
  auto granted = asked;
  auto& settings = granted.settings;
  const auto refuse = [&](std::string why) {
    granted.problems.push_back(model::annotation_problem(
        service, model::scheduler_annotation(service),
        fmt::format("{}; the Service has the node's scheduler, {}", why, options.scheduler)));
    settings.scheduler.clear();
    settings.flags.reset();
  };
  if (node.absent_schedulers.contains(settings.scheduler))
    refuse(fmt::format("this kernel has no IPVS scheduler {0} (module ip_vs_{0})",
                       settings.scheduler));
  else if (bytes_for(service, settings, options) > kTablesOfOneService)
    refuse(fmt::format("{} has a table for each address and port, and one Service gets {}",
                       settings.scheduler, kTablesOfOneService / table_of(settings.scheduler)));
  else if (node.beyond_tables.contains(service.name))
    refuse(
        fmt::format("{} has a table for each address and port, all those of a node take {} MiB at "
                    "most, and this Service is beyond the share of its namespace",
                    settings.scheduler, kTablesOfAll >> 20U));
  return granted;
}

std::string_view scheduler_of(const ServiceSettings& settings, const PlannerOptions& options) {
  return settings.scheduler.empty() ? std::string_view(options.scheduler) : settings.scheduler;
}

model::Thresholds thresholds_of(const ServiceSettings& settings, const PlannerOptions& options) {
  return settings.max_connections.value_or(options.max_connections);
}

}  // namespace ipvsproxier::plan
