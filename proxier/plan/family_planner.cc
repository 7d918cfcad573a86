#include "proxier/plan/family_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/api_server.h"
#include "proxier/plan/in_cluster_goals.h"
#include "proxier/plan/localhost.h"
#include "proxier/plan/node_ports.h"
#include "proxier/plan/other_programs.h"

namespace ipvsproxier::plan {

namespace {

using netlink::Family;
using netlink::IpAddress;

ipset::LocalDetector detector_of(Family family, const NodeInfo& node,
                                 const PlannerOptions& options) {
  switch (options.detect_local) {
    case DetectLocalMode::bridge_interface:
      return ipset::BridgeInterface{options.bridge_interface};
    case DetectLocalMode::interface_name_prefix:
      return ipset::InterfacePrefix{options.interface_prefix};
    case DetectLocalMode::cluster_cidr:
    case DetectLocalMode::node_cidr:
      break;
  }
  const bool by_node = options.detect_local == DetectLocalMode::node_cidr;
  for (const auto& cidr : by_node ? node.pod_cidrs : options.cluster_cidrs)
    if (cidr.family() == family) return cidr;
  return {};
}

// The pods of this node, where the detector tells pods by their source.
std::optional<netlink::IpPrefix> own_pods_of(Family family, const NodeInfo& node,
                                             const PlannerOptions& options) {
  if (options.detect_local != DetectLocalMode::cluster_cidr &&
      options.detect_local != DetectLocalMode::node_cidr)
    return std::nullopt;
  for (const auto& cidr : node.pod_cidrs)
    if (cidr.family() == family) return cidr;
  return std::nullopt;
}

// The addresses of Services among the values, of which they are the first.
SortedVector<IpAddress> addresses_in(const SortedVector<SharedTraffic>& shared) {
  static_assert(SharedTraffic::Kind::vip == SharedTraffic::Kind{});
  std::vector<IpAddress> addresses;
  for (const auto& one : shared) {
    if (one.kind != SharedTraffic::Kind::vip) break;
    addresses.push_back(one.address);
  }
  return SortedVector(std::move(addresses));
}

// Calls left(value) for each value that only `before` has, came(value) for each that only `now`
// has.
template <typename Left, typename Came>
void compare(const SortedVector<SharedTraffic>& before, const SortedVector<SharedTraffic>& now,
             Left left, Came came) {
  auto old = before.begin();
  auto one = now.begin();
  while (old != before.end() && one != now.end()) {
    const auto order = *old <=> *one;
    if (order < 0) {
      left(*old++);
    } else if (order > 0) {
      came(*one++);
    } else {
      ++old;
      ++one;
    }
  }
  std::for_each(old, before.end(), left);
  std::for_each(one, now.end(), came);
}

}  // namespace

FamilyPlanner::FamilyPlanner(Family family, const PlannerOptions& options, DesiredState& state)
    : options_(options), state_(state), rendering_(family, state.sets, state.rules[family]) {
  node_.family = family;
  node_.node_ports_name_address = options.packet_filter == ipset::PacketFilter::nftables;
  for (auto id : ipset::sets_of(options.packet_filter)) state_.sets[{family, id}];
  auto& parameters = rules();
  parameters.masquerade_mark = options.masquerade_mark;
  parameters.masquerade_all = options.masquerade_all;
  parameters.vip_ping = options.differences.vip_ping;
  parameters.short_paths = options.differences.short_paths;
  parameters.drop_invalid = options.differences.drop_invalid;
  parameters.healthz_port = options.healthz_port;
  parameters.vips_are_sources = !options.bind_by_routes;
}

void FamilyPlanner::set_node(const NodeInfo& node) {
  const FamilyNode before = node_;
  node_info_ = node;
  node_.name = node.name;
  node_.zone = node.zone;
  node_.ip = node.ips.at(node_.family);
  node_.other_links = other_link_addresses(
      node, node_.family, options_.differences.take_over_kube_router ? kKubeRouterLink : "");
  node_.left = left_ports(node, node_.family);
  node_.in_cluster = in_cluster_range(node_.family, node, options_);
  no_localhost_ = why_no_localhost(node_.family, node, options_);
  node_.localhost = options_.serves_localhost() && no_localhost_.empty();
  refresh_node_addresses();
  auto detector = detector_of(node_.family, node, options_);
  const auto* const pods = std::get_if<netlink::IpPrefix>(&detector);
  node_.pods = pods == nullptr ? std::nullopt : std::optional(*pods);
  plan_all_ = plan_all_ || node_ != before;
  auto own_pods = own_pods_of(node_.family, node, options_);
  rules_changed_ = rules_changed_ || rules().detector != detector || rules().own_pods != own_pods ||
                   rules().localhost != node_.localhost;
  rules().localhost = node_.localhost;
  rules().detector = std::move(detector);
  rules().own_pods = own_pods;
}

std::set<api::NamespacedName> FamilyPlanner::set_foreign(
    const std::set<netlink::VirtualServiceKey>& keys, const model::ClusterState& cluster) {
  Foreign before;
  for (const auto& key : keys)
    if (key.address.family() == node_.family) before.insert(key);
  std::swap(before, node_.foreign);
  Names names;
  if (before == node_.foreign) return names;
  // What came and what went.
  std::vector<netlink::VirtualServiceKey> differing;
  std::ranges::set_symmetric_difference(before.keys, node_.foreign.keys,
                                        std::back_inserter(differing));
  Foreign differs;
  for (const auto& key : differing) differs.insert(key);
  for (const auto& [name, service] : cluster.services)
    if (is_met_by(differs, service)) names.insert(name);
  return names;
}

// Whether foreign virtual services may be in the way of an address of the Service.
bool FamilyPlanner::is_met_by(const Foreign& foreign, const api::Service& service) const {
  const auto has_address = [&](const IpAddress& address) {
    return foreign.addresses.contains(address);
  };
  // Of its own for clients within the cluster.
  const auto& range = node_.in_cluster.range;
  const auto has_derived = [&](const IpAddress& cluster_ip) {
    return range && cluster_ip.family() == node_.family &&
           has_address(in_cluster_address(*range, cluster_ip));
  };
  const bool on_localhost =
      node_.localhost && has_address(ipset::localhost_loop(node_.family).server);
  const auto has_port = [&](const api::ServicePort& port) {
    return (on_localhost && port.node_port != 0) ||
           foreign.ports.contains({port.protocol, port.node_port});
  };
  return std::ranges::any_of(service.external_ips, has_address) ||
         std::ranges::any_of(service.load_balancer_ips, has_address) ||
         std::ranges::any_of(service.cluster_ips, has_derived) ||
         std::ranges::any_of(service.ports, has_port);
}

std::set<api::NamespacedName> FamilyPlanner::set_absent_schedulers(
    const std::set<std::string, std::less<>>& absent, const model::ClusterState& cluster) {
  Names names;
  if (absent == node_.absent_schedulers) return names;
  const auto before = std::exchange(node_.absent_schedulers, absent);
  for (const auto& [name, asked] : cluster.settings()) {
    const auto& scheduler = asked.settings.scheduler;
    if (before.contains(scheduler) != absent.contains(scheduler)) names.insert(name);
  }
  return names;
}

std::set<api::NamespacedName> FamilyPlanner::set_api_server(std::set<IpAddress> reached,
                                                            const model::ClusterState& cluster) {
  std::erase_if(reached, [&](const IpAddress& address) {
    return address.family() != node_.family || address.is_loopback();
  });
  reached_ = std::move(reached);
  return refresh_api_server(cluster);
}

// Returns the Services with an external address that is now one of the API server, or no longer.
FamilyPlanner::Names FamilyPlanner::refresh_api_server(const model::ClusterState& cluster) {
  if (!options_.differences.guard_api_server) return {};
  auto now = api_server_endpoints(cluster, node_.family);
  now.insert(reached_.begin(), reached_.end());
  if (now == node_.api_server) return {};
  std::swap(now, node_.api_server);
  return services_between(now, node_.api_server, cluster);
}

// As with kube-proxy, nodePortAddresses may cover addresses on our dummy links.
bool FamilyPlanner::refresh_node_addresses() {
  std::set<IpAddress> dummy;
  const bool may_lend = !options_.differences.node_ports_on_node_only;
  if (may_lend && options_.node_port_primary && state_.addresses.contains(node_.ip))
    dummy.insert(node_.ip);
  if (may_lend && !options_.node_port_addresses.empty()) {
    for (const auto& address : state_.addresses)
      if (address.family() == node_.family && !is_of_localhost(address)) dummy.insert(address);
  }
  std::erase_if(dummy, [&](const auto& address) { return node_.other_links.contains(address); });
  node_.lent_addresses = dummy;
  auto now = node_port_addresses(node_info_, node_.family, options_, dummy);
  const bool changed = now != node_.node_addresses;
  node_.node_addresses = std::move(now);
  return changed;
}

model::ParsedSettings FamilyPlanner::settings_of(const api::NamespacedName& name,
                                                 const model::ClusterState& cluster) const {
  const auto service = cluster.services.find(name);
  if (service == cluster.services.end()) return {};
  return granted_settings(service->second, cluster.settings_of(name), node_, options_);
}

// Loopback addresses, those that stand for them and those of the API server are dropped: binding an
// address closes all its ports except those of its Service, and anybody could name them.
FamilyPlanner::Ports FamilyPlanner::ports_of(const api::NamespacedName& name,
                                             const model::ClusterState& cluster) const {
  const auto service = cluster.services.find(name);
  if (service == cluster.services.end()) return {};
  auto ports = model::service_ports(service->second, node_.family, options_.allow_external_ips,
                                    settings_of(name, cluster).settings);
  const auto is_kept_from = [&](const IpAddress& address) {
    return (options_.differences.unbind_special && address.is_loopback()) ||
           (node_.localhost && is_of_localhost(address)) || node_.api_server.contains(address);
  };
  for (auto& port : ports)
    for (auto* list : {&port.external_ips, &port.load_balancer_ips})
      std::erase_if(*list, is_kept_from);
  return ports;
}

const FamilyPlanner::Ports& FamilyPlanner::PortsOnce::of(const api::NamespacedName& service) {
  const auto known = first_.find(service);
  if (known != first_.end()) return known->second;
  if (first_.size() < kMost)
    return first_.emplace(service, planner_.ports_of(service, cluster_)).first->second;
  return other_ = planner_.ports_of(service, cluster_);
}

// The addresses of a Service change. True if those of the state changed.
bool FamilyPlanner::bind(const SortedVector<IpAddress>& before,
                         const SortedVector<IpAddress>& wanted, Scope& scope) {
  bool changed = false;
  for (const auto& address : difference(wanted, before)) {
    if (state_.addresses.insert(address))
      changed = true;
    else
      ++shared_addresses_[address];
    scope.addresses.insert(address);
  }
  for (const auto& address : difference(before, wanted)) {
    const auto shared = shared_addresses_.find(address);
    if (shared != shared_addresses_.end()) {
      if (--shared->second == 0) shared_addresses_.erase(shared);
      continue;
    }
    state_.addresses.erase(address);
    scope.addresses.insert(address);
    changed = true;
  }
  return changed;
}

FamilyPlanner::Names FamilyPlanner::with_node_ports(const model::ClusterState& cluster) const {
  Names names;
  for (const auto& [name, service] : cluster.services) {
    const auto has_one = [](const api::ServicePort& port) { return port.node_port != 0; };
    if (std::any_of(service.ports.begin(), service.ports.end(), has_one)) names.insert(name);
  }
  return names;
}

// Returns the other Services that may have won or lost a virtual service.
FamilyPlanner::Names FamilyPlanner::take_claims(const Names& names,
                                                const model::ClusterState& cluster,
                                                PortsOnce& ports, const ScopeOf& scope_of,
                                                std::map<api::NamespacedName, Ended>& ended) {
  Names rivals;
  std::vector<std::pair<netlink::VirtualServiceKey, api::NamespacedName>> claimed_before;
  for (const auto& name : names) {
    const auto found = cluster.services.find(name);
    const auto* service = found == cluster.services.end() ? nullptr : &found->second;
    auto wanted = claims_of(ports.of(name), node_, options_);
    if (wanted.empty() && !parts_.contains(name)) continue;
    const auto part = parts_.try_emplace(name).first;
    auto& claimant = part->second.claimant;
    if (service != nullptr && Claims::is_so(claimant, *service, wanted)) continue;
    for (const auto& claim : claimant.claims) claimed_before.emplace_back(claim.key, name);
    rivals.merge(claims_.set(part->first, claimant, service, std::move(wanted)));
  }
  for (const auto& [key, name] : claimed_before) {
    if (claims_.owner_of(key) != nullptr) continue;
    if (auto found = state_.services.extract(key))
      ended[name].emplace_back(key, std::move(found.mapped().traffic));
    scope_of(name).services.insert(key);
  }
  return rivals;
}

FamilyPlanner::Names FamilyPlanner::share_tables(const Names& names,
                                                 const model::ClusterState& cluster) {
  for (const auto& name : names) {
    const auto service = cluster.services.find(name);
    if (service == cluster.services.end())
      tables_.set(name, 0, std::nullopt);
    else
      tables_.set(name, table_bytes_of(service->second, cluster.settings_of(name), node_, options_),
                  service->second.creation_time);
  }
  auto differing = tables_.settle();
  if (!differing.empty()) node_.beyond_tables = tables_.beyond();
  return differing;
}

void FamilyPlanner::update(Names names, const model::ClusterState& cluster,
                           ScopesByService* wanted) {
  Scope unwanted;
  const auto scope_of = [&](const api::NamespacedName& name) -> Scope& {
    return wanted ? (*wanted)[name] : unwanted;
  };
  // Discard at once: kept, it would leave holes in the heap between lasting allocations.
  const auto forget = [&] { unwanted = {}; };
  const bool all = std::exchange(plan_all_, false);
  if (all || std::ranges::any_of(names, is_api_server)) names.merge(refresh_api_server(cluster));
  if (all) {
    for (const auto& [name, part] : parts_) names.insert(name);
    for (const auto& [name, service] : cluster.services) names.insert(name);
  }
  if (std::exchange(rules_changed_, false)) scope_of({}).rules.insert(node_.family);
  names.merge(share_tables(names, cluster));
  PortsOnce ports(*this, cluster);
  bool changed = false;
  for (const auto& name : names) {
    const auto part = parts_.find(name);
    const auto before =
        part == parts_.end() ? SortedVector<IpAddress>() : addresses_in(part->second.shared);
    changed |= bind(before, addresses_of(ports.of(name), node_), scope_of(name));
    forget();
  }
  const bool some_addresses = options_.node_port_primary || !options_.node_port_addresses.empty();
  if (changed && some_addresses && refresh_node_addresses()) names.merge(with_node_ports(cluster));

  std::map<api::NamespacedName, Ended> ended;
  names.merge(take_claims(names, cluster, ports, scope_of, ended));

  const Ended none;
  for (const auto& name : names) {
    const auto slices = cluster.slices.find(name);
    const auto left = ended.find(name);
    replace(name,
            plan_service(ports.of(name), settings_of(name, cluster),
                         slices == cluster.slices.end() ? nullptr : &slices->second, claims_, node_,
                         options_),
            left == ended.end() ? none : left->second, scope_of(name));
    forget();
  }
}

// A Service without anything in this family has no part; in a single-stack cluster that is every
// Service.
void FamilyPlanner::replace(const api::NamespacedName& name, ServicePlan plan, const Ended& ended,
                            Scope& scope) {
  if (plan.not_granted.empty())
    found_.not_granted.erase(name);
  else
    found_.not_granted.insert_or_assign(name, std::move(plan.not_granted));
  if (plan.meets_foreign)
    found_.meet_foreign.insert(name);
  else
    found_.meet_foreign.erase(name);
  if (plan.is_empty() && !parts_.contains(name)) return;
  Part& part = parts_[name];
  ipset::Rendered before;
  ipset::Rendered now;
  for (const auto& [key, traffic] : ended) render(key, traffic, before);
  for (auto& [key, planned] : plan.services) {
    const auto [it, is_new] = state_.services.try_emplace(key);
    if (is_new || it->second.traffic != planned.traffic) {
      if (!is_new) render(key, it->second.traffic, before);
      render(key, planned.traffic, now);
    }
    it->second = std::move(planned);
  }
  compare(
      part.shared, plan.shared,
      [&](const SharedTraffic& one) { ipset::render(options_.packet_filter, one, before); },
      [&](const SharedTraffic& one) { ipset::render(options_.packet_filter, one, now); });
  part.shared = std::move(plan.shared);
  rendering_.replace(std::move(before), std::move(now), {scope.elements, scope.rules});
  found_.local_lack.internal += plan.local_lack.internal - part.local_lack.internal;
  found_.local_lack.external += plan.local_lack.external - part.local_lack.external;
  part.local_lack = plan.local_lack;
  add_vips_of(name, scope);
  if (part.is_empty()) parts_.erase(name);
}

api::Problems FamilyPlanner::problems() const {
  auto problems = claims_.problems();
  if (options_.node_port_localhost && !no_localhost_.empty())
    problems.push_back(
        {.severity = api::Severity::error,
         .origin = "",
         .object = "KubeProxyConfiguration",
         .field = "nodePortAddresses",
         .message = fmt::format("localhost: no node port is on {}, all others are: {}",
                                ipset::localhost_loop(node_.family).localhost.to_string(),
                                no_localhost_)});
  std::size_t told = 0;
  for (const auto& [name, of_service] : found_.not_granted) {
    if (told++ == Claims::kMostTold) break;
    problems.insert(problems.end(), of_service.begin(), of_service.end());
  }
  return problems;
}

void FamilyPlanner::add_claims_held_by(const api::NamespacedName& service,
                                       std::vector<Claim>& claims) const {
  const auto it = parts_.find(service);
  if (it == parts_.end()) return;
  for (const auto& claim : it->second.claimant.claims)
    if (claims_.holds(service, claim)) claims.push_back(claim);
}

std::vector<PortReport> FamilyPlanner::report_of(const api::NamespacedName& service,
                                                 const model::ClusterState& cluster) const {
  const auto slices = cluster.slices.find(service);
  return report_service(ports_of(service, cluster), settings_of(service, cluster).settings,
                        slices == cluster.slices.end() ? nullptr : &slices->second, claims_, node_,
                        state_.rules.at(node_.family), options_);
}

void FamilyPlanner::add_vips_of(const api::NamespacedName& service, Scope& scope) const {
  const auto it = parts_.find(service);
  if (it == parts_.end()) return;
  const Part& part = it->second;
  for (const auto& claim : part.claimant.claims)
    if (claims_.holds(service, claim)) scope.services.insert(claim.key);
  const auto addresses = addresses_in(part.shared);
  scope.addresses.insert(addresses.begin(), addresses.end());
}

void FamilyPlanner::add_scope_of(const api::NamespacedName& service, Scope& scope) const {
  add_vips_of(service, scope);
  const auto it = parts_.find(service);
  if (it == parts_.end()) return;
  ipset::Rendered rendered;
  for (const auto& claim : it->second.claimant.claims)
    if (claims_.holds(service, claim))
      render(claim.key, state_.services.at(claim.key).traffic, rendered);
  for (const auto& one : it->second.shared) ipset::render(options_.packet_filter, one, rendered);
  for (const auto& [id, element] : rendered.elements)
    scope.elements[{node_.family, id}].insert(element);
}

}  // namespace ipvsproxier::plan
