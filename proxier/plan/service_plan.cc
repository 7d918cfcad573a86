#include "proxier/plan/service_plan.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "proxier/model/service_port.h"
#include "proxier/plan/topology.h"

namespace ipvsproxier::plan {

namespace {

using ipset::Element;
using ipset::IpElement;
using ipset::IpPortElement;
using ipset::IpPortIpElement;
using ipset::IpPortNetElement;
using ipset::PortElement;
using ipset::SetId;
using model::ServicePort;
using netlink::IpAddress;
using netlink::Protocol;

using Endpoints = std::vector<model::Endpoint>;
using Ports = std::vector<ServicePort>;

// The set elements of all ports, in the order in which they are found.
struct Guards {
  std::vector<SetElement> elements;
  std::vector<ipset::OutFilterEntry> out_filter;
};

// Values for the whole Service, over all its ports.
struct Whole {
  bool comes_first = false;
  std::size_t servers = 0;  // real servers asked for
};

// The API server and the cluster DNS: everything else needs them to start.
bool comes_first(const api::Service& service) {
  if (service.name == api::NamespacedName{"default", "kubernetes"}) return true;
  return std::any_of(service.ports.begin(), service.ports.end(), [](const api::ServicePort& port) {
    return port.protocol == Protocol::udp && port.port == 53;
  });
}

template <typename Visit>
void visit_facets(const ServicePort& port, std::size_t index, const FamilyNode& node, Visit visit) {
  const auto facet = [&](Facet kind, const IpAddress& address, std::uint16_t number) {
    visit(Claim{{address, port.name.protocol, number}, kind, static_cast<std::uint16_t>(index)});
  };
  facet(Facet::cluster_ip, port.cluster_ip, port.port);
  for (const auto& ip : port.external_ips) facet(Facet::external_ip, ip, port.port);
  for (const auto& ip : port.load_balancer_ips) facet(Facet::load_balancer, ip, port.port);
  if (port.node_port != 0)
    for (const auto& ip : node.node_addresses) facet(Facet::node_port, ip, port.node_port);
}

// A real server of weight 0 keeps its entries in the table of mh and sh; without the fallback flag,
// connections that fall to it are refused (net/netfilter/ipvs/ip_vs_mh.c, ip_vs_sh.c; 6.1).
std::uint32_t scheduler_flags(const PlannerOptions& options) {
  const bool by_port = options.scheduler == "mh";
  const bool has_table = by_port || options.scheduler == "sh";
  std::uint32_t flags = by_port ? netlink::kSchedulerFlag2 : 0;
  if (has_table && options.differences.scheduler_fallback) flags |= netlink::kSchedulerFlag1;
  return flags;
}

class PortPlanner {
 public:
  PortPlanner(const ServicePort& port, const FamilyNode& node, const PlannerOptions& options,
              ServicePlan& plan, Guards& guards, Whole& whole)
      : port_(port),
        node_(node),
        options_(options),
        differences_(options.differences),
        plan_(plan),
        guards_(guards),
        whole_(whole) {}

  void run(std::size_t index, const Endpoints& endpoints, const Claims& claims) {
    if (!differences_.lean_loop_back)
      for (const auto& endpoint : endpoints) add_loop_back(endpoint);
    const auto choice = choose_endpoints(port_, endpoints);
    visit_facets(port_, index, node_, [&](const Claim& claim) {
      if (!claims.holds(port_.name.service, claim)) return;
      plan_virtual_service(claim, choice);
      plan_elements(claim);
    });
    const bool node_ports_skipped = port_.node_port != 0 && node_.node_addresses.empty();
    const bool open = differences_.open_health_check_ports || !node_ports_skipped;
    if (port_.health_check_node_port != 0 && open)
      add(SetId::health_check_node_port, PortElement{port_.health_check_node_port});
  }

 private:
  void add(SetId id, const Element& element) { guards_.elements.emplace_back(id, element); }

  // For hairpin traffic: an endpoint on this node that reaches itself through its Service.
  void add_loop_back(const model::Endpoint& endpoint) {
    if (!endpoint.local) return;
    const auto& [address, port] = endpoint.key;
    add(SetId::loop_back, IpPortIpElement{address, port_.name.protocol, port, address});
  }

  void plan_virtual_service(const Claim& claim, const EndpointChoice& choice) {
    PlannedService planned;
    planned.facet = claim.facet;
    planned.first = whole_.comes_first;
    planned.service.key = claim.key;
    planned.service.scheduler = options_.scheduler;
    planned.service.netmask_bits = netlink::address_bits(node_.family);
    planned.service.flags = scheduler_flags(options_);
    if (port_.affinity_seconds) {
      planned.service.flags |= netlink::kPersistent;
      planned.service.timeout = *port_.affinity_seconds;
    }
    const auto [local_only, strict] = policy_of(port_, claim.facet, differences_);
    if (local_only && choice.local.empty() && choice.any) {
      if (port_.internal_policy_local) plan_.local_lack.internal = 1;
      if (port_.external_policy_local) plan_.local_lack.external = 1;
    }
    std::vector<netlink::RealServerKey> servers;
    for (const auto* endpoint : choice.of_facet(local_only, strict)) {
      // Node ports are not counted: the number of their addresses depends on the node.
      if (claim.facet != Facet::node_port && ++whole_.servers > model::kMostOfOneService) break;
      servers.push_back(endpoint->key);
      add_loop_back(*endpoint);
    }
    planned.servers = SortedVector(std::move(servers));
    plan_.services.insert_or_assign(claim.key, std::move(planned));
  }

  void plan_elements(const Claim& claim) {
    const auto& [address, protocol, port, mark] = claim.key;
    const IpPortElement element{address, protocol, port};
    const bool local = port_.external_policy_local;
    switch (claim.facet) {
      case Facet::cluster_ip:
        return add(SetId::cluster_ip, element);
      case Facet::external_ip:
        return add(local ? SetId::external_ip_local : SetId::external_ip, element);
      case Facet::load_balancer:
        add(SetId::load_balancer, element);
        if (local) add(SetId::load_balancer_local, element);
        return plan_source_ranges(element);
      case Facet::node_port:
        return plan_node_port(element, local);
    }
  }

  void plan_source_ranges(const IpPortElement& vip) {
    if (port_.source_ranges.empty()) return;
    add(SetId::load_balancer_fw, vip);
    bool covers_node = false;
    for (const auto& range : port_.source_ranges) {
      add(SetId::load_balancer_source_cidr,
          IpPortNetElement{vip.ip, vip.protocol, vip.port, range});
      covers_node = covers_node || range.contains(node_.ip);
    }
    if (covers_node)
      add(SetId::load_balancer_source_ip, IpPortIpElement{vip.ip, vip.protocol, vip.port, vip.ip});
    else
      guards_.out_filter.push_back({vip.ip, vip.protocol, vip.port});
  }

  void plan_node_port(const IpPortElement& element, bool local) {
    switch (element.protocol) {
      case Protocol::tcp:
        add(SetId::node_port_tcp, PortElement{element.port});
        if (local) add(SetId::node_port_local_tcp, PortElement{element.port});
        return;
      case Protocol::udp:
        add(SetId::node_port_udp, PortElement{element.port});
        if (local) add(SetId::node_port_local_udp, PortElement{element.port});
        return;
      case Protocol::sctp:
        add(SetId::node_port_sctp_hash, element);
        if (local) add(SetId::node_port_local_sctp_hash, element);
        return;
    }
  }

  const ServicePort& port_;
  const FamilyNode& node_;
  const PlannerOptions& options_;
  const Differences& differences_;
  ServicePlan& plan_;
  Guards& guards_;
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

// Every node has loopback addresses, so none of them is bound for a Service.
std::optional<api::Problem> loopback_of(const api::Service& service, const FamilyNode& node,
                                        const PlannerOptions& options) {
  if (!options.differences.unbind_special) return std::nullopt;
  const auto first_of = [&](const std::vector<IpAddress>& addresses) {
    return std::ranges::find_if(addresses, [&](const auto& address) {
      return address.family() == node.family && address.is_loopback();
    });
  };
  const auto problem = [&](std::string_view field, const IpAddress& address) {
    return api::Problem{.severity = api::Severity::warning,
                        .origin = service.origin,
                        .object = "Service " + api::to_string(service.name),
                        .field = std::string(field),
                        .message = fmt::format(
                            "{} is a loopback address, which every node has for itself: it is not "
                            "proxied; all else of the Service is",
                            address.to_string())};
  };
  const auto external = first_of(service.external_ips);
  if (options.allow_external_ips && external != service.external_ips.end())
    return problem("spec.externalIPs", *external);
  const auto balancer = first_of(service.load_balancer_ips);
  if (balancer != service.load_balancer_ips.end())
    return problem("status.loadBalancer.ingress", *balancer);
  return std::nullopt;
}

}  // namespace

FacetPolicy policy_of(const ServicePort& port, Facet facet, const Differences& differences) {
  const bool internal = facet == Facet::cluster_ip;
  return {.local_only = internal ? port.internal_policy_local : port.external_policy_local,
          .strict = internal && differences.strict_internal_traffic_policy};
}

SortedVector<IpAddress> addresses_of(const Ports& ports, const FamilyNode& node) {
  std::vector<IpAddress> result;
  // All ports of a Service have the same addresses.
  if (!ports.empty()) {
    const auto& port = ports.front();
    result.push_back(port.cluster_ip);
    for (const auto* list : {&port.external_ips, &port.load_balancer_ips})
      for (const auto& ip : *list)
        if (!node.other_links.contains(ip)) result.push_back(ip);
  }
  return SortedVector(std::move(result));
}

std::vector<Claim> claims_of(const Ports& ports, const FamilyNode& node) {
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < ports.size(); ++i)
    visit_facets(ports[i], i, node, [&](const Claim& claim) { claims.push_back(claim); });
  return claims;
}

ServicePlan plan_service(const Ports& ports, const model::SlicesByName* slices,
                         const Claims& claims, const FamilyNode& node,
                         const PlannerOptions& options) {
  ServicePlan plan;
  if (ports.empty()) return plan;
  const auto& service = *ports.front().service;
  Guards guards;
  Whole whole{.comes_first = comes_first(service)};
  std::map<api::ServicePortName, Endpoints> endpoints;
  if (slices)
    endpoints = model::endpoints_of(service.name, *slices, node.family, node.name, node.zone);
  for (std::size_t i = 0; i < ports.size(); ++i)
    PortPlanner(ports[i], node, options, plan, guards, whole)
        .run(i, endpoints[ports[i].name], claims);
  if (ports.front().is_cut || whole.servers > model::kMostOfOneService ||
      (slices && model::count_endpoints(*slices, node.family) > model::kMostOfOneService))
    plan.not_granted.push_back(excess_of(service));
  if (auto problem = loopback_of(service, node, options))
    plan.not_granted.push_back(*std::move(problem));
  for (const auto& address : addresses_of(ports, node))
    guards.elements.emplace_back(SetId::ipvs_ips, IpElement{address});
  plan.elements = SetElements(guards.elements);
  plan.out_filter = SortedVector(std::move(guards.out_filter));
  return plan;
}

}  // namespace ipvsproxier::plan
