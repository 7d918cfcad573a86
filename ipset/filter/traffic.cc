#include "ipset/filter/traffic.h"

namespace ipvsproxier::ipset {

std::string_view to_string(Facet facet) {
  switch (facet) {
    case Facet::cluster_ip:
      return "cluster IP";
    case Facet::external_ip:
      return "external IP";
    case Facet::load_balancer:
      return "load balancer";
    case Facet::node_port:
      return "node port";
    case Facet::in_cluster:
      return "for clients within the cluster";
    case Facet::localhost:
      return "node port on localhost";
  }
  return "?";
}

void VipTraffic::join(const VipTraffic& other) {
  facets.insert(other.facets);
  if (source_ranges.empty()) {
    source_ranges = other.source_ranges;
    ranges_hold_node = other.ranges_hold_node;
  }
  if (source == ClientSource::kept)
    source = other.source;
  else if (other.source != ClientSource::kept && other.source != source)
    source = ClientSource::masqueraded;
  if (!other.in_cluster) in_cluster.reset();
  drops_outside = drops_outside && other.drops_outside && in_cluster;
}

}  // namespace ipvsproxier::ipset
