#include "proxier/plan/planner.h"

#include <algorithm>

#include "proxier/plan/claims.h"
#include "proxier/plan/node_ports.h"
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
using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

using Endpoints = std::vector<model::Endpoint>;

// The API server and the cluster DNS: what everything else needs to come up.
bool comes_first(const api::Service& service) {
  if (service.name == api::NamespacedName{"default", "kubernetes"}) return true;
  return std::any_of(service.ports.begin(), service.ports.end(), [](const api::ServicePort& port) {
    return port.protocol == Protocol::udp && port.port == 53;
  });
}

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

class FamilyPlanner {
 public:
  FamilyPlanner(Family family, const model::ClusterState& cluster, const NodeInfo& node,
                const PlannerOptions& options, Plan& plan)
      : family_(family), cluster_(cluster), node_(node), options_(options), plan_(plan) {}

  void run() {
    collect_ports();
    settle_claims();
    for (auto id : ipset::kSetIds) plan_.state.sets[{family_, id}];
    for (const auto& port : ports_) plan_port(port);
    for (const auto& address : addresses_) add(SetId::ipvs_ips, IpElement{address});
    plan_.state.addresses.insert(addresses_.begin(), addresses_.end());
    plan_rules();
  }

 private:
  void collect_ports() {
    for (const auto& [name, service] : cluster_.services) {
      auto ports = model::service_ports(service, family_, options_.allow_external_ips);
      std::move(ports.begin(), ports.end(), std::back_inserter(ports_));
    }
    other_links_ = other_link_addresses(node_, family_);
    for (const auto& port : ports_) {
      addresses_.insert(port.cluster_ip);
      for (const auto* list : {&port.external_ips, &port.load_balancer_ips})
        for (const auto& ip : *list)
          if (!other_links_.contains(ip)) addresses_.insert(ip);
    }
    const auto has_node_port = [](const ServicePort& port) { return port.node_port != 0; };
    if (std::any_of(ports_.begin(), ports_.end(), has_node_port))
      node_addresses_ = node_port_addresses(node_, family_, options_, addresses_);
  }

  template <typename Visit>
  void visit_facets(const ServicePort& port, Visit visit) const {
    const auto facet = [&](Facet kind, const IpAddress& address, std::uint16_t number) {
      visit(FacetClaim{&port, kind, {address, port.name.protocol, number}});
    };
    facet(Facet::cluster_ip, port.cluster_ip, port.port);
    for (const auto& ip : port.external_ips) facet(Facet::external_ip, ip, port.port);
    for (const auto& ip : port.load_balancer_ips) facet(Facet::load_balancer, ip, port.port);
    if (port.node_port != 0)
      for (const auto& ip : node_addresses_) facet(Facet::node_port, ip, port.node_port);
  }

  void settle_claims() {
    for (const auto& port : ports_)
      visit_facets(port, [this](const FacetClaim& claim) { claims_.add(claim); });
    auto problems = claims_.settle();
    std::move(problems.begin(), problems.end(), std::back_inserter(plan_.problems));
  }

  void add(SetId id, Element element) { plan_.state.sets[{family_, id}].insert(element); }

  const Endpoints& endpoints_of(const ServicePort& port) {
    const auto& service = port.name.service;
    if (!cached_service_ || *cached_service_ != service) {
      cached_service_ = service;
      cached_endpoints_.clear();
      if (const auto it = cluster_.slices.find(service); it != cluster_.slices.end())
        cached_endpoints_ = model::endpoints_of(service, it->second, family_, node_.name);
    }
    static const Endpoints kNone;
    const auto it = cached_endpoints_.find(port.name);
    return it == cached_endpoints_.end() ? kNone : it->second;
  }

  void plan_port(const ServicePort& port) {
    const Protocol protocol = port.name.protocol;
    const Endpoints& endpoints = endpoints_of(port);
    for (const auto& endpoint : endpoints)
      if (endpoint.local)
        add(SetId::loop_back, IpPortIpElement{endpoint.key.address, protocol, endpoint.key.port,
                                              endpoint.key.address});
    const auto choice = choose_endpoints(port, endpoints, node_.name, node_.zone);
    visit_facets(port, [&](const FacetClaim& claim) {
      if (!claims_.holds(port, claim.key)) return;
      plan_service(claim, choice);
      plan_elements(claim);
    });
    const bool node_ports_skipped = port.node_port != 0 && node_addresses_.empty();
    if (port.health_check_node_port != 0 && !node_ports_skipped)
      add(SetId::health_check_node_port, PortElement{port.health_check_node_port});
  }

  void plan_service(const FacetClaim& claim, const EndpointChoice& choice) {
    const ServicePort& port = *claim.port;
    PlannedService planned;
    planned.owner = port.name;
    planned.facet = claim.facet;
    planned.first = comes_first(*port.service);
    planned.service.key = claim.key;
    planned.service.scheduler = options_.scheduler;
    planned.service.netmask_bits = netlink::address_bits(family_);
    if (options_.scheduler == "mh") planned.service.flags |= netlink::kSchedulerFlag2;
    if (port.affinity_seconds) {
      planned.service.flags |= netlink::kPersistent;
      planned.service.timeout = *port.affinity_seconds;
    }
    const bool local_only =
        claim.facet == Facet::cluster_ip ? port.internal_policy_local : port.external_policy_local;
    for (const auto* endpoint : choice.of_facet(local_only))
      planned.servers.emplace(endpoint->key, netlink::RealServer{.key = endpoint->key});
    plan_.state.services.insert_or_assign(claim.key, std::move(planned));
  }

  void plan_elements(const FacetClaim& claim) {
    const auto& [address, protocol, port, mark] = claim.key;
    const IpPortElement element{address, protocol, port};
    const bool local = claim.port->external_policy_local;
    switch (claim.facet) {
      case Facet::cluster_ip:
        return add(SetId::cluster_ip, element);
      case Facet::external_ip:
        return add(local ? SetId::external_ip_local : SetId::external_ip, element);
      case Facet::load_balancer:
        add(SetId::load_balancer, element);
        if (local) add(SetId::load_balancer_local, element);
        return plan_source_ranges(*claim.port, element);
      case Facet::node_port:
        return plan_node_port(element, local);
    }
  }

  void plan_source_ranges(const ServicePort& port, const IpPortElement& vip) {
    if (port.source_ranges.empty()) return;
    add(SetId::load_balancer_fw, vip);
    bool covers_node = false;
    for (const auto& range : port.source_ranges) {
      add(SetId::load_balancer_source_cidr,
          IpPortNetElement{vip.ip, vip.protocol, vip.port, range});
      covers_node = covers_node || range.contains(node_.ips.at(family_));
    }
    if (covers_node)
      add(SetId::load_balancer_source_ip, IpPortIpElement{vip.ip, vip.protocol, vip.port, vip.ip});
    else
      out_filter_.insert(ipset::OutFilterEntry{vip.ip, vip.protocol, vip.port});
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

  void plan_rules() {
    ipset::RuleParameters parameters;
    parameters.masquerade_mark = options_.masquerade_mark;
    parameters.masquerade_all = options_.masquerade_all;
    parameters.detector = detector_of(family_, node_, options_);
    parameters.vip_ping = options_.vip_ping;
    parameters.out_filter = std::move(out_filter_);
    for (auto id : ipset::kSetIds)
      if (!plan_.state.sets.at({family_, id}).empty()) parameters.non_empty.insert(id);
    plan_.state.rules.emplace(family_, std::move(parameters));
  }

  const Family family_;
  const model::ClusterState& cluster_;
  const NodeInfo& node_;
  const PlannerOptions& options_;
  Plan& plan_;

  std::vector<ServicePort> ports_;
  std::set<IpAddress> other_links_;
  std::set<IpAddress> addresses_;       // wanted on the dummy link
  std::set<IpAddress> node_addresses_;  // that carry node ports
  Claims claims_;
  std::set<ipset::OutFilterEntry> out_filter_;
  std::optional<api::NamespacedName> cached_service_;
  std::map<api::ServicePortName, Endpoints> cached_endpoints_;
};

}  // namespace

Plan plan(const model::ClusterState& cluster, const NodeInfo& node, const PlannerOptions& options) {
  Plan result;
  result.state.complete = cluster.complete;
  result.state.foreign = options.exclude_cidrs;
  for (auto family : options.families) FamilyPlanner(family, cluster, node, options, result).run();
  return result;
}

}  // namespace ipvsproxier::plan
