#include "proxier/plan/service_plan.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "ipset/rules/localhost_rules.h"
#include "proxier/api/annotations.h"
#include "proxier/model/service_port.h"
#include "proxier/plan/api_server.h"
#include "proxier/plan/granted_settings.h"
#include "proxier/plan/in_cluster_goals.h"
#include "proxier/plan/localhost.h"
#include "proxier/plan/topology.h"
#include "proxier/plan/wrr_steps.h"

namespace ipvsproxier::plan {

namespace {

using ipset::ClientSource;
using model::ServicePort;
using model::ServiceSettings;
using netlink::IpAddress;
using netlink::Protocol;

using Endpoints = std::vector<model::Endpoint>;
using Ports = std::vector<ServicePort>;

// Values for the whole Service, over all its ports.
struct Whole {
  bool comes_first = false;
  std::size_t servers = 0;  // real servers asked for
  bool scaled = false;      // weights are scaled down (wrr_steps.h)
};

// The API server and the cluster DNS: everything else needs them to start.
bool comes_first(const api::Service& service) {
  if (service.name == api::NamespacedName{"default", "kubernetes"}) return true;
  return std::any_of(service.ports.begin(), service.ports.end(), [](const api::ServicePort& port) {
    return port.protocol == Protocol::udp && port.port == 53;
  });
}

// Calls visit(claim) or refused(refused claim) for each address of the port.
template <typename Visit, typename Refused>
void visit_facets(const ServicePort& port, std::size_t index, const FamilyNode& node,
                  const PlannerOptions& options, Visit visit, Refused refused) {
  const auto facet = [&](Facet kind, const IpAddress& address, std::uint16_t number) {
    const Claim claim{{address, port.name.protocol, number},
                      kind,
                      static_cast<std::uint16_t>(index),
                      kind == Facet::node_port && node.lent_addresses.contains(address)};
    // Some node ports are in a set with their address.
    const bool alone = kind == Facet::node_port &&
                       (node.node_ports_name_address || claim.key.protocol == Protocol::sctp);
    const auto* left =
        options.differences.leave_untracked ? left_to(node.left, claim.key) : nullptr;
    if (left != nullptr)
      refused(RefusedClaim{.claim = claim, .link = left->link});
    else if (const auto* foreign = node.foreign.refuses(claim.key, kind, alone))
      refused(RefusedClaim{.claim = claim, .foreign = *foreign});
    else
      visit(claim);
  };
  facet(Facet::cluster_ip, port.cluster_ip, port.port);
  for (const auto& ip : port.external_ips) facet(Facet::external_ip, ip, port.port);
  for (const auto& ip : port.load_balancer_ips) facet(Facet::load_balancer, ip, port.port);
  if (port.node_port != 0)
    for (const auto& ip : node.node_addresses) facet(Facet::node_port, ip, port.node_port);
  if (port.node_port != 0 && node.localhost)
    facet(Facet::localhost, ipset::localhost_loop(node.family).server, port.node_port);
  if (const auto ip = in_cluster_address(port, node.in_cluster))
    facet(Facet::in_cluster, *ip, port.port);
}

// A real server of weight 0 keeps its entries in the table of mh and sh; without the fallback flag,
// connections that fall to it are refused (net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c; 6.1).
std::uint32_t scheduler_flags(std::string_view scheduler, const PlannerOptions& options) {
  const bool by_port = scheduler == "mh";
  const bool has_table = by_port || scheduler == "sh";
  std::uint32_t flags = by_port ? netlink::kSchedulerFlag2 : 0;
  if (has_table && options.differences.scheduler_fallback) flags |= netlink::kSchedulerFlag1;
  return flags;
}

std::uint32_t flags_of(std::string_view scheduler, const ServiceSettings& settings,
                       const PlannerOptions& options) {
  if (settings.flags) return *settings.flags;
  if (options.scheduler_flags && scheduler == options.scheduler) return *options.scheduler_flags;
  return scheduler_flags(scheduler, options);
}

constexpr auto kIgnoreRefused = [](const RefusedClaim&) {};

class PortPlanner {
 public:
  PortPlanner(const ServicePort& port, const FamilyNode& node, const PlannerOptions& options,
              const ServiceSettings& settings, ServicePlan& plan,
              std::vector<SharedTraffic>& shared, Whole& whole)
      : port_(port),
        node_(node),
        options_(options),
        settings_(settings),
        differences_(options.differences),
        plan_(plan),
        shared_(shared),
        whole_(whole) {}

  void run(std::size_t index, const Endpoints& endpoints, const Claims& claims,
           const std::optional<Claim>& in_cluster) {
    if (!differences_.lean_loop_back)
      for (const auto& endpoint : endpoints) add_hairpin(endpoint);
    if (differences_.drop_invalid && port_.name.protocol == Protocol::tcp)
      for (const auto& endpoint : endpoints) add_unless_recognized(endpoint.key.address);
    const auto choice = choose_endpoints(port_, endpoints);
    visit_facets(
        port_, index, node_, options_,
        [&](const Claim& claim) {
          if (!claims.holds(port_.name.service, claim)) return;
          plan_virtual_service(claim, choice, in_cluster);
          if (options_.healthz_port != 0 && claim.facet == Facet::load_balancer)
            shared_.push_back({.kind = Kind::health_address, .address = claim.key.address});
        },
        kIgnoreRefused);
    const bool node_ports_skipped = port_.node_port != 0 && node_.node_addresses.empty();
    const bool open = differences_.open_health_check_ports || !node_ports_skipped;
    if (port_.health_check_node_port != 0 && open)
      shared_.push_back({.kind = Kind::health_port,
                         .port = port_.health_check_node_port,
                         .address = IpAddress::any(node_.family)});
  }

 private:
  using Kind = SharedTraffic::Kind;

  void add_hairpin(const model::Endpoint& endpoint) {
    if (endpoint.local)
      shared_.push_back({.kind = Kind::hairpin,
                         .protocol = port_.name.protocol,
                         .is_node = node_.other_links.contains(endpoint.key.address),
                         .port = endpoint.key.port,
                         .address = endpoint.key.address});
  }

  void add_unless_recognized(const netlink::IpAddress& endpoint) {
    const bool is_pod = node_.pods && node_.pods->contains(endpoint);
    if (!is_pod && !node_.other_links.contains(endpoint))
      shared_.push_back({.kind = Kind::other_endpoint, .address = endpoint});
  }

  netlink::VirtualService virtual_service(const netlink::VirtualServiceKey& key) const {
    const auto scheduler = scheduler_of(settings_, options_);
    netlink::VirtualService service{.key = key, .scheduler = scheduler};
    service.netmask_bits = netlink::address_bits(node_.family);
    service.flags = flags_of(scheduler, settings_, options_);
    if (settings_.one_packet && key.protocol == Protocol::udp) service.flags |= netlink::kOnePacket;
    if (port_.affinity_seconds) {
      service.flags |= netlink::kPersistent;
      service.timeout = *port_.affinity_seconds;
      const auto& mask =
          node_.family == netlink::Family::ipv4 ? settings_.mask_v4 : settings_.mask_v6;
      service.netmask_bits = mask.value_or(service.netmask_bits);
    }
    return service;
  }

  void plan_virtual_service(const Claim& claim, const EndpointChoice& choice,
                            const std::optional<Claim>& in_cluster) {
    PlannedService planned;
    planned.facet = claim.facet;
    planned.first = whole_.comes_first;
    planned.service = virtual_service(claim.key);
    const auto limits = thresholds_of(settings_, options_);
    planned.upper_threshold = limits.upper;
    planned.lower_threshold = limits.lower;
    if (settings_.drain_timeout) planned.drain_timeout = settings_.drain_timeout->count();
    const auto [local_only, strict] =
        policy_of(port_, claim.facet, in_cluster.has_value(), options_);
    if (local_only && choice.local.empty() && choice.any) {
      if (port_.internal_policy_local) plan_.local_lack.internal = 1;
      if (port_.external_policy_local) plan_.local_lack.external = 1;
    }
    std::vector<netlink::RealServerKey> servers;
    std::vector<std::uint32_t> weights;
    for (const auto* endpoint : choice.of_facet(local_only, strict)) {
      // Node ports are not counted: the number of their addresses depends on the node.
      if (!is_of_node_port(claim.facet) && ++whole_.servers > model::kMostOfOneService) break;
      servers.push_back(endpoint->key);
      weights.push_back(weight_of(*endpoint, EndpointUse::used).weight);
      add_hairpin(*endpoint);
    }
    if (has_wrr_walks(planned)) whole_.scaled |= limit_weights(weights, weights.size());
    planned.servers = SortedVector(std::move(servers));  // endpoints are ordered already
    if (std::ranges::any_of(weights, [](std::uint32_t weight) { return weight != 1; }))
      planned.weights = std::move(weights);
    planned.traffic = traffic_of(claim, choice, in_cluster);
    const auto [it, is_new] = plan_.services.try_emplace(claim.key);
    if (!is_new) planned.traffic.join(it->second.traffic);
    it->second = std::move(planned);
  }

  VipTraffic traffic_of(const Claim& claim, const EndpointChoice& choice,
                        const std::optional<Claim>& in_cluster) const {
    VipTraffic traffic{.facets = claim.facet};
    const bool from_inside = claim.facet == Facet::cluster_ip || claim.facet == Facet::in_cluster;
    if (from_inside)
      traffic.source = ClientSource::masqueraded_unless_by_pod;
    else if (!port_.external_policy_local || claim.facet == Facet::localhost)
      traffic.source = ClientSource::masqueraded;
    if (claim.facet == Facet::load_balancer) {
      traffic.source_ranges = port_.source_ranges;
      traffic.ranges_hold_node = std::ranges::any_of(
          port_.source_ranges, [&](const auto& range) { return range.contains(node_.ip); });
    }
    if (claim.facet == Facet::localhost) {
      const auto [local_only, strict] =
          policy_of(port_, claim.facet, in_cluster.has_value(), options_);
      traffic.is_served = !choice.of_facet(local_only, strict).empty();
    }
    // This node is the only client there.
    if (!from_inside && in_cluster && claim.facet != Facet::localhost) {
      traffic.in_cluster = {in_cluster->key.address, in_cluster->key.port};
      traffic.drops_outside = choice.local.empty() && choice.any;
    }
    return traffic;
  }

  const ServicePort& port_;
  const FamilyNode& node_;
  const PlannerOptions& options_;
  const ServiceSettings& settings_;
  const Differences& differences_;
  ServicePlan& plan_;
  std::vector<SharedTraffic>& shared_;
  Whole& whole_;
};

// A constant text, whatever the excess, so that the log reports it once.
api::Problem excess_of(const api::Service& service) {
  return {.severity = api::Severity::error,
          .origin = service.origin,
          .object = "Service " + api::to_string(service.name),
          .message = fmt::format(
              "asks for more than one Service gets: {} of ports times external IPs, load-balancer "
              "IPs or source ranges, of ports times endpoints, of real servers; its last ports, "
              "addresses or endpoints are left out",
              model::kMostOfOneService)};
}

// One problem for all that foreign virtual services refuse the Service, with the first of them.
api::Problem foreign_of(const api::Service& service, const std::vector<RefusedClaim>& refused) {
  const auto& claim = refused.front().claim;
  const std::string more =
      refused.size() == 1
          ? ""
          : fmt::format(", nor {} more that this Service asks for", refused.size() - 1);
  return {.severity = api::Severity::error,
          .origin = service.origin,
          .object = "Service " + api::to_string(service.name),
          .field = field_of(claim.facet, claim.port),
          .message = fmt::format(
              "another program of this node has the virtual service {}, and keeps "
              "it: {} is not programmed{}",
              netlink::to_string(*refused.front().foreign), netlink::to_string(claim.key), more)};
}

// The ports that the Service asks for and other programs have, or should have.
std::vector<LeftPorts> left_of(const Ports& ports, const FamilyNode& node,
                               const PlannerOptions& options) {
  std::set<LeftPorts> left;
  const auto note = [&](const Claim& claim) {
    if (const auto* found = left_to(node.left, claim.key)) left.insert(*found);
  };
  if (node.left.empty()) return {};
  for (std::size_t i = 0; i < ports.size(); ++i)
    visit_facets(ports[i], i, node, options, note,
                 [&](const RefusedClaim& refused) { note(refused.claim); });
  return {left.begin(), left.end()};
}

void add_refusals(const Ports& ports, const FamilyNode& node, const PlannerOptions& options,
                  ServicePlan& plan) {
  const auto& service = *ports.front().service;
  auto refused = refused_claims_of(ports, node, options);
  std::erase_if(refused, [](const RefusedClaim& one) { return !one.foreign; });
  plan.meets_foreign = !refused.empty();
  if (!refused.empty()) plan.not_granted.push_back(foreign_of(service, refused));
  if (const auto left = left_of(ports, node, options); !left.empty())
    plan.not_granted.push_back(left_problem(service, left, options.differences.leave_untracked));
}

// The annotation by which weights above 1 are asked for; "": none.
std::string_view weights_annotation(const model::SlicesByName* slices,
                                    const ServiceSettings& settings) {
  const auto counts = [](std::uint32_t weight) { return weight > 1; };
  if (std::ranges::any_of(settings.weights,
                          [&](const model::WeightRow& row) { return counts(row.weight); }))
    return "ipvs-proxier/weights";
  const bool by_slice =
      slices != nullptr && std::ranges::any_of(*slices, [&](const api::EndpointSlice& slice) {
        return slice.weight && counts(*slice.weight);
      });
  return by_slice ? api::kWeightAnnotation : "";
}

// The weights have no effect under a scheduler that does not read them, or not their whole effect.
std::optional<api::Problem> weights_problem(const api::Service& service,
                                            const model::SlicesByName* slices,
                                            const ServiceSettings& settings,
                                            const PlannerOptions& options, const Whole& whole) {
  const auto scheduler = scheduler_of(settings, options);
  const bool are_idle = options.differences.service_annotations && !model::heeds_weights(scheduler);
  if (!are_idle && !whole.scaled) return std::nullopt;
  const auto annotation = weights_annotation(slices, settings);
  if (annotation.empty()) return std::nullopt;
  return model::annotation_problem(
      service, annotation,
      are_idle
          ? fmt::format(
                "the scheduler {} does not look at weights; ipvs-proxier/scheduler: wrr does",
                scheduler)
          : fmt::format("the scheduler wrr with a limit of connections looks at each real server "
                        "for each step of the weights, so the largest weight times the real "
                        "servers of a virtual service is {} at most; the weights are scaled down",
                        kMostWrrSteps));
}

}  // namespace

FacetPolicy policy_of(const ServicePort& port, Facet facet, bool in_cluster,
                      const PlannerOptions& options) {
  if (facet == Facet::in_cluster) return {};
  if (facet == Facet::localhost)
    return {.local_only = port.external_policy_local && !options.sends_clients_on()};
  if (facet == Facet::cluster_ip)
    return {.local_only = port.internal_policy_local,
            .strict = options.differences.strict_internal_traffic_policy};
  return {.local_only = port.external_policy_local, .strict = in_cluster};
}

SortedVector<IpAddress> addresses_of(const Ports& ports, const FamilyNode& node) {
  std::vector<IpAddress> result;
  // All ports of a Service have the same addresses.
  if (!ports.empty()) {
    const auto& port = ports.front();
    result.push_back(port.cluster_ip);
    for (const auto* list : {&port.external_ips, &port.load_balancer_ips})
      for (const auto& ip : *list)
        if (!node.other_links.contains(ip) && !node.foreign.addresses.contains(ip))
          result.push_back(ip);
  }
  const auto has_node_port = [](const ServicePort& port) { return port.node_port != 0; };
  if (node.localhost && std::ranges::any_of(ports, has_node_port))
    result.push_back(ipset::localhost_loop(node.family).server);
  // Of a Service with node ports alone each port has one, or none has.
  for (const auto& one : ports)
    if (const auto own = in_cluster_address(one, node.in_cluster);
        own && !node.foreign.addresses.contains(*own))
      result.push_back(*own);
  return SortedVector(std::move(result));
}

std::vector<Claim> claims_of(const Ports& ports, const FamilyNode& node,
                             const PlannerOptions& options) {
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < ports.size(); ++i)
    visit_facets(
        ports[i], i, node, options, [&](const Claim& claim) { claims.push_back(claim); },
        kIgnoreRefused);
  return claims;
}

std::vector<RefusedClaim> refused_claims_of(const Ports& ports, const FamilyNode& node,
                                            const PlannerOptions& options) {
  std::vector<RefusedClaim> refused;
  for (std::size_t i = 0; i < ports.size(); ++i)
    visit_facets(
        ports[i], i, node, options, [](const Claim&) {},
        [&](const RefusedClaim& claim) { refused.push_back(claim); });
  return refused;
}

std::map<api::ServicePortName, Endpoints> endpoints_of(const api::NamespacedName& service,
                                                       const model::SlicesByName* slices,
                                                       const FamilyNode& node,
                                                       const model::ServiceSettings& settings,
                                                       const PlannerOptions& options) {
  if (slices == nullptr) return {};
  const auto& differences = options.differences;
  return model::endpoints_of(
      service, *slices, node.family, node.name, node.zone,
      differences.service_annotations ? &settings : nullptr,
      differences.ready_wins ? model::Duplicates::ready_wins : model::Duplicates::later_wins);
}

ServicePlan plan_service(const Ports& ports, const model::ParsedSettings& granted,
                         const model::SlicesByName* slices, const Claims& claims,
                         const FamilyNode& node, const PlannerOptions& options) {
  ServicePlan plan;
  if (ports.empty()) return plan;
  const auto& service = *ports.front().service;
  // Made in its order as far as possible, which saves sorting.
  std::vector<SharedTraffic> shared;
  const auto addresses = addresses_of(ports, node);
  for (const auto& address : addresses)
    shared.push_back({.kind = SharedTraffic::Kind::vip, .address = address});
  Whole whole{.comes_first = comes_first(service)};
  const auto& settings = granted.settings;
  plan.not_granted = granted.problems;
  auto endpoints = endpoints_of(service.name, slices, node, settings, options);
  const auto goals = in_cluster_goals(ports, claims, node, options);
  for (std::size_t i = 0; i < ports.size(); ++i)
    PortPlanner(ports[i], node, options, settings, plan, shared, whole)
        .run(i, endpoints[ports[i].name], claims, goals.empty() ? std::nullopt : goals[i]);
  if (auto problem = weights_problem(service, slices, settings, options, whole))
    plan.not_granted.push_back(*std::move(problem));
  if (ports.front().is_cut || whole.servers > model::kMostOfOneService ||
      (slices && model::count_endpoints(*slices, node.family) > model::kMostOfOneService))
    plan.not_granted.push_back(excess_of(service));
  if (auto problem = loopback_problem(service, node.family, node.localhost, options))
    plan.not_granted.push_back(*std::move(problem));
  if (auto problem = api_server_problem(service, node.api_server, options))
    plan.not_granted.push_back(*std::move(problem));
  if (auto problem = in_cluster_problem(ports, node.in_cluster))
    plan.not_granted.push_back(*std::move(problem));
  add_refusals(ports, node, options, plan);
  plan.shared = SortedVector(std::move(shared));
  for (auto& [key, planned] : plan.services)
    planned.traffic.is_bound = addresses.contains(key.address);
  return plan;
}

}  // namespace ipvsproxier::plan
