#include "proxier/plan/iptables_filter.h"

#include <utility>
#include <vector>

namespace ipvsproxier::plan {

namespace {

using ipset::Element;
using ipset::IpElement;
using ipset::IpPortElement;
using ipset::IpPortIpElement;
using ipset::IpPortNetElement;
using ipset::PortElement;
using ipset::SetId;
using netlink::Protocol;

class Renderer {
 public:
  FilterEntries run(const ServiceTraffic& traffic) {
    for (const auto& vip : traffic.vips) add_vip(vip);
    for (const auto& address : traffic.addresses) add(SetId::ipvs_ips, IpElement{address});
    for (const auto& [protocol, endpoint, is_node] : traffic.hairpins)
      add(SetId::loop_back,
          IpPortIpElement{endpoint.address, protocol, endpoint.port, endpoint.address});
    for (const auto& endpoint : traffic.other_endpoints)
      add(SetId::other_endpoints, IpElement{endpoint});
    for (const auto& address : traffic.healthz) add(SetId::healthz, IpElement{address});
    for (const auto port : traffic.health_ports)
      add(SetId::health_check_node_port, PortElement{port});
    return {SetElements(elements_), SortedVector(std::move(out_filter_))};
  }

 private:
  void add(SetId id, const Element& element) { elements_.emplace_back(id, element); }

  void add_vip(const VipTraffic& vip) {
    const IpPortElement element{vip.key.address, vip.key.protocol, vip.key.port};
    const bool kept = vip.source == ClientSource::kept;
    switch (vip.facet) {
      case Facet::cluster_ip:
      case Facet::in_cluster:
        return add(SetId::cluster_ip, element);
      case Facet::external_ip:
        return add(kept ? SetId::external_ip_local : SetId::external_ip, element);
      case Facet::load_balancer:
        add(SetId::load_balancer, element);
        if (kept) add(SetId::load_balancer_local, element);
        return add_ranges(vip, element);
      case Facet::node_port:
      case Facet::localhost:
        return add_node_port(element, kept);
    }
  }

  void add_ranges(const VipTraffic& vip, const IpPortElement& element) {
    if (vip.source_ranges.empty()) return;
    const auto& [ip, protocol, port] = element;
    add(SetId::load_balancer_fw, element);
    for (const auto& range : vip.source_ranges)
      add(SetId::load_balancer_source_cidr, IpPortNetElement{ip, protocol, port, range});
    if (vip.ranges_hold_node)
      add(SetId::load_balancer_source_ip, IpPortIpElement{ip, protocol, port, ip});
    else
      out_filter_.push_back({ip, protocol, port});
  }

  void add_node_port(const IpPortElement& element, bool kept) {
    switch (element.protocol) {
      case Protocol::tcp:
        add(SetId::node_port_tcp, PortElement{element.port});
        if (kept) add(SetId::node_port_local_tcp, PortElement{element.port});
        return;
      case Protocol::udp:
        add(SetId::node_port_udp, PortElement{element.port});
        if (kept) add(SetId::node_port_local_udp, PortElement{element.port});
        return;
      case Protocol::sctp:
        add(SetId::node_port_sctp_hash, element);
        if (kept) add(SetId::node_port_local_sctp_hash, element);
        return;
    }
  }

  std::vector<SetElement> elements_;
  std::vector<ipset::OutFilterEntry> out_filter_;
};

}  // namespace

FilterEntries iptables_filter(const ServiceTraffic& traffic) {
  return Renderer().run(traffic);
}

}  // namespace ipvsproxier::plan
