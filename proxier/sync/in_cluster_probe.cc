#include "proxier/sync/in_cluster_probe.h"

#include <algorithm>

#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::sync {

namespace {

// Whether other sets of the family could be read, but not those for in-cluster clients.
bool has_foreign_set(netlink::Family family, const plan::ActualState& kernel) {
  const auto is_known = [&](ipset::SetId id) { return kernel.sets.contains({family, id}); };
  return std::ranges::all_of(ipset::kSetIds, is_known) &&
         !std::ranges::all_of(ipset::kOwnSetIds, is_known);
}

}  // namespace

std::set<api::NamespacedName> InClusterProbe::look(const model::ClusterState& cluster,
                                                   const plan::ActualState& kernel,
                                                   ipset::RuleTable& rules,
                                                   plan::Planner& planner) {
  std::set<api::NamespacedName> services;
  const auto& options = planner.options();
  if (!options.differences.in_cluster_clients ||
      options.packet_filter != ipset::PacketFilter::iptables)
    return services;
  const bool again = readings_++ % kReadingsBetween == 0;
  for (const auto family : options.families) {
    auto& absent = absent_[family];
    if (readings_ == 1 || (again && !absent.empty())) absent = rules.untranslatable(family);
    const Protocols all{netlink::Protocol::tcp, netlink::Protocol::udp, netlink::Protocol::sctp};
    services.merge(
        planner.set_untranslated(family, has_foreign_set(family, kernel) ? all : absent, cluster));
  }
  return services;
}

}  // namespace ipvsproxier::sync
