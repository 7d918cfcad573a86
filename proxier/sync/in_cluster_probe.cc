#include "proxier/sync/in_cluster_probe.h"

#include <algorithm>

#include "ipset/rules/address_search.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::sync {

namespace {

// Whether another program has one of the sets for in-cluster clients.
bool has_foreign_set(netlink::Family family, const plan::ActualState& kernel) {
  return kernel.foreign_sets.contains({family, ipset::SetId::in_cluster}) ||
         kernel.foreign_sets.contains({family, ipset::SetId::in_cluster_only});
}

// The protocols by which the kernel's rules send packets on.
std::set<netlink::Protocol> sent_on(netlink::Family family, const plan::ActualState& kernel) {
  std::set<netlink::Protocol> protocols;
  const auto nat = kernel.rules.find({family, ipset::Table::nat});
  if (nat != kernel.rules.end())
    for (const auto& entry : ipset::entries_in(nat->second.chains))
      protocols.insert(entry.protocol);
  return protocols;
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
    if (!absent || (again && !absent->empty()))
      if (auto looked = rules.untranslatable(family)) absent = *std::move(looked);
    const Protocols all{netlink::Protocol::tcp, netlink::Protocol::udp, netlink::Protocol::sctp};
    Protocols lacks = absent.value_or(all);
    if (!absent)  // a way that works stays
      for (const auto protocol : sent_on(family, kernel)) lacks.erase(protocol);
    if (has_foreign_set(family, kernel)) lacks = all;
    services.merge(planner.set_untranslated(family, lacks, cluster));
  }
  return services;
}

}  // namespace ipvsproxier::sync
