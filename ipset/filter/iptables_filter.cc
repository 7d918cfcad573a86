#include "ipset/filter/iptables_filter.h"

namespace ipvsproxier::ipset {

namespace {

void add_node_port(const IpPortElement& element, bool kept, std::vector<SetElement>& elements) {
  switch (element.protocol) {
    case Protocol::tcp:
      elements.emplace_back(SetId::node_port_tcp, PortElement{element.port});
      if (kept) elements.emplace_back(SetId::node_port_local_tcp, PortElement{element.port});
      return;
    case Protocol::udp:
      elements.emplace_back(SetId::node_port_udp, PortElement{element.port});
      if (kept) elements.emplace_back(SetId::node_port_local_udp, PortElement{element.port});
      return;
    case Protocol::sctp:
      elements.emplace_back(SetId::node_port_sctp_hash, element);
      if (kept) elements.emplace_back(SetId::node_port_local_sctp_hash, element);
      return;
  }
}

void add_ranges(const VipTraffic& traffic, const IpPortElement& element, Rendered& rendered) {
  if (traffic.source_ranges.empty()) return;
  auto& elements = rendered.elements;
  const auto& [ip, protocol, port] = element;
  elements.reserve(elements.size() + traffic.source_ranges.size() + 2);
  elements.emplace_back(SetId::load_balancer_fw, element);
  for (const auto& range : traffic.source_ranges)
    elements.emplace_back(SetId::load_balancer_source_cidr,
                          IpPortNetElement{ip, protocol, port, range});
  if (traffic.ranges_hold_node)
    elements.emplace_back(SetId::load_balancer_source_ip, IpPortIpElement{ip, protocol, port, ip});
  else
    rendered.out_filter.push_back({ip, protocol, port});
}

}  // namespace

void render_iptables(const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
                     Rendered& rendered) {
  auto& elements = rendered.elements;
  const IpPortElement element{key.address, key.protocol, key.port};
  const auto& facets = traffic.facets;
  const bool kept = traffic.source != ClientSource::masqueraded;
  if (facets.contains(Facet::cluster_ip) || facets.contains(Facet::in_cluster))
    elements.emplace_back(SetId::cluster_ip, element);
  if (facets.contains(Facet::external_ip))
    elements.emplace_back(kept ? SetId::external_ip_local : SetId::external_ip, element);
  if (facets.contains(Facet::load_balancer)) {
    elements.emplace_back(SetId::load_balancer, element);
    if (kept) elements.emplace_back(SetId::load_balancer_local, element);
    add_ranges(traffic, element, rendered);
  }
  if (facets.contains(Facet::node_port) || facets.contains(Facet::localhost))
    add_node_port(element, kept, elements);
}

void render_iptables(const SharedTraffic& traffic, Rendered& rendered) {
  auto& elements = rendered.elements;
  const auto& address = traffic.address;
  switch (traffic.kind) {
    case SharedTraffic::Kind::vip:
      elements.emplace_back(SetId::ipvs_ips, IpElement{address});
      return;
    case SharedTraffic::Kind::hairpin:
      elements.emplace_back(SetId::loop_back,
                            IpPortIpElement{address, traffic.protocol, traffic.port, address});
      return;
    case SharedTraffic::Kind::other_endpoint:
      elements.emplace_back(SetId::other_endpoints, IpElement{address});
      return;
    case SharedTraffic::Kind::health_address:
      elements.emplace_back(SetId::healthz, IpElement{address});
      return;
    case SharedTraffic::Kind::health_port:
      elements.emplace_back(SetId::health_check_node_port, PortElement{traffic.port});
      return;
  }
}

}  // namespace ipvsproxier::ipset
