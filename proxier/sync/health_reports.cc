#include "proxier/sync/health_reports.h"

#include <algorithm>
#include <utility>

#include "proxier/plan/node_ports.h"
#include "proxier/plan/service_health.h"
#include "proxier/sync/retries.h"

namespace ipvsproxier::sync {

namespace {

using Count = std::optional<std::uint32_t>;

Count not_more(Count now, Count before) {
  return now && before ? std::min(now, before) : std::nullopt;
}

}  // namespace

void HealthReports::touch(const std::set<api::NamespacedName>& services) {
  touched_.insert(services.begin(), services.end());
}

void HealthReports::see_node(const plan::NodeInfo& node, const plan::PlannerOptions& options) {
  using netlink::Family;
  serve::NodePortHealthAddresses now = {
      .ipv4 = plan::health_addresses(node, Family::ipv4, options),
      .ipv6 = plan::health_addresses(node, Family::ipv6, options)};
  if (addresses_ == now) return;
  addresses_ = std::move(now);
  addresses_told_ = false;
}

HealthReports::Report HealthReports::told(const api::NamespacedName& service) const {
  const auto it = told_.find(service);
  return it == told_.end() ? std::nullopt : Report(it->second);
}

serve::ServiceHealthChanges HealthReports::take(const model::ClusterState& cluster,
                                                const plan::Planner& planner,
                                                const std::string& node_name,
                                                const plan::Scope& waiting, bool sure,
                                                const Turns& turns) {
  serve::ServiceHealthChanges changes;
  if (!std::exchange(addresses_told_, true)) changes.addresses = addresses_;
  std::erase_if(touched_, [&](const api::NamespacedName& name) {
    const auto before = told(name);
    const bool is_known = sure && !turns.contains(name);
    const auto health = plan::service_health(name, cluster, planner.options().families, node_name);
    bool all = true;
    Report now;
    if (health) {
      const auto wanted = planner.vips_of(name);
      const auto count = [&](netlink::Family family, Count told_count) -> Count {
        const auto it = health->local_endpoints.find(family);
        if (it == health->local_endpoints.end()) return std::nullopt;
        if (is_known && is_programmed(wanted, waiting, family)) return it->second;
        all = false;
        return not_more(it->second, before && before->port == health->port ? told_count : Count());
      };
      const auto old = before.value_or(serve::ServiceHealth{});
      now = {.port = health->port,
             .ipv4_endpoints = count(netlink::Family::ipv4, old.ipv4_endpoints),
             .ipv6_endpoints = count(netlink::Family::ipv6, old.ipv6_endpoints),
             .load_balancers = {}};
      if (planner.options().differences.open_health_check_ports)
        for (const auto& address : health->load_balancers) {
          const auto vip = wanted.services.lower_bound({address});
          if (vip != wanted.services.end() && vip->address == address)
            now->load_balancers.insert(address);
        }
      if (!now->ipv4_endpoints && !now->ipv6_endpoints) now.reset();
    }
    if (now == before) return all;
    changes.services[name] = now;
    if (now)
      told_.insert_or_assign(name, *now);
    else
      told_.erase(name);
    return all;
  });
  return changes;
}

}  // namespace ipvsproxier::sync
