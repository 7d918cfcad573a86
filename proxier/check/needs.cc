#include "proxier/check/needs.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_codec.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::check {

namespace {

using netlink::Family;

// What the rules of a family need while these sets have elements.
std::set<std::string> rule_modules(Family family, const ipset::RuleParameters& parameters) {
  std::set<std::string> modules;
  for (const auto& rules : ipset::rules_for(family, parameters))
    modules.merge(ipset::modules_of(rules));
  return modules;
}

ipset::RuleParameters least(const Wanted& wanted) {
  auto parameters = ipset::least_parameters();
  parameters.vips_are_sources = !wanted.bind_by_routes;
  return parameters;
}

// Those of one that has everything.
ipset::RuleParameters most(const Wanted& wanted, Family family) {
  auto parameters = least(wanted);
  parameters.non_empty.insert(ipset::kSetIds.begin(), ipset::kSetIds.end());
  const auto address =
      *netlink::IpAddress::parse(family == Family::ipv4 ? "192.0.2.1" : "2001:db8::1");
  parameters.out_filter.insert({address, netlink::Protocol::tcp, 80});
  if (!wanted.as_kube_proxy)
    parameters.non_empty.insert(ipset::kOwnSetIds.begin(), ipset::kOwnSetIds.end());
  return parameters;
}

std::string other_name(const std::string& module, Family family) {
  if (module != "xt_MASQUERADE") return "";
  return family == Family::ipv4 ? "ipt_MASQUERADE" : "ip6t_MASQUERADE";  // before Linux 5.2
}

std::string partial_loss(const std::string& module, Family family) {
  const auto text = netlink::to_string(family);
  if (module == "xt_ipvs")
    return fmt::format("{} load balancers whose source ranges leave this node out are not served",
                       text);
  if (module == "xt_tcpudp")
    return fmt::format("no {} Service is programmed any more once one has a load-balancer address",
                       text);
  if (module == "xt_physdev")
    return fmt::format("no {} Service is programmed any more once one has external IPs", text);
  return fmt::format("some {} Services cannot be served", text);
}

void add_rule_needs(const Wanted& wanted, Family family, std::vector<ModuleNeed>& found) {
  const auto tables = ipset::module_of(family);
  const auto always = rule_modules(family, least(wanted));
  const auto loss = fmt::format("no {} Service is served", netlink::to_string(family));
  found.push_back({.module = tables, .loss = loss, .family = family, .asked_for_by_kernel = false});
  for (const auto& module : always)
    if (module != tables)
      found.push_back(
          {.module = module, .other = other_name(module, family), .loss = loss, .family = family});
  for (const auto& module : rule_modules(family, most(wanted, family)))
    if (!always.contains(module))
      found.push_back({.module = module,
                       .level = Level::limit,
                       .loss = partial_loss(module, family),
                       .family = family});
}

void add_iptables_needs(const Wanted& wanted, std::vector<ModuleNeed>& found) {
  const std::string everything = "no Service is served";
  found.push_back({.module = "ip_set", .loss = everything});
  std::set<ipset::SetKind> kinds;
  for (const auto id : ipset::kSetIds) kinds.insert(ipset::set_spec(id, Family::ipv4).kind);
  for (const auto kind : kinds) {
    ModuleNeed need{.module = std::string(ipset::module_of(kind)), .loss = everything};
    // Of all sets, only that of source ranges is of this kind.
    if (kind == ipset::SetKind::hash_ip_port_net) {
      need.level = Level::limit;
      need.loss = "load balancers with source ranges are not served";
    }
    found.push_back(std::move(need));
  }
  for (const auto family : netlink::kFamilies) add_rule_needs(wanted, family, found);
}

void add_nft_needs(std::vector<ModuleNeed>& found) {
  for (const auto& module : nft_modules({}))
    found.push_back({.module = module, .loss = "no Service is served"});
  for (const auto family : netlink::kFamilies)
    for (const auto& module : nft_modules(family))
      found.push_back({.module = module,
                       .loss = fmt::format("no {} Service is served", netlink::to_string(family)),
                       .family = family});
}

}  // namespace

std::vector<std::string> nft_modules(std::optional<Family> family) {
  if (!family) return {"nf_tables", "nft_ct", "nft_chain_nat", "nft_nat", "nft_masq", "nft_reject"};
  if (*family == Family::ipv4) return {"nft_reject_ipv4", "nft_fib_ipv4"};
  return {"nft_reject_ipv6", "nft_fib_ipv6"};
}

std::vector<ModuleNeed> needs(const Wanted& wanted) {
  const std::string everything = "no Service is served";
  std::vector<ModuleNeed> found = {{.module = "ip_vs", .loss = everything},
                                   {.module = "ip_vs_" + wanted.scheduler, .loss = everything}};
  if (wanted.packet_filter == ipset::PacketFilter::nftables)
    add_nft_needs(found);
  else
    add_iptables_needs(wanted, found);
  // Also where addresses are bound by routes: kube-ipvs0 is made before anything is bound.
  found.push_back({.module = "dummy", .loss = "no address of a Service is bound to this node"});
  const bool is_nft = wanted.packet_filter == ipset::PacketFilter::nftables;
  if (wanted.localhost && is_nft)
    found.push_back(
        {.module = "veth", .level = Level::limit, .loss = "no node port is on localhost"});
  found.push_back({.module = "nf_conntrack_netlink",
                   .level = Level::limit,
                   .loss = !wanted.as_kube_proxy && is_nft
                               ? "flows of UDP, and of this node and its pods to policy Local, go "
                                 "on to an endpoint that has left"
                               : "UDP flows go on to an endpoint that has left until they time "
                                 "out"});
  return found;
}

}  // namespace ipvsproxier::check
