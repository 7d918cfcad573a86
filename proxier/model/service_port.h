#pragma once

// ServicePort: one port of one Service in one family, flat, with everything that the planner asks.
// Pure values; usable on any thread.

#include <cstdint>
#include <optional>
#include <vector>

#include "proxier/api/objects.h"

namespace ipvsproxier::model {

struct ServicePort {
  api::ServicePortName name;
  const api::Service* service = nullptr;  // its owner, which must outlive this
  netlink::IpAddress cluster_ip;
  std::uint16_t port = 0;
  std::uint16_t node_port = 0;                        // 0: none
  std::vector<netlink::IpAddress> external_ips;       // empty where external IPs are not allowed
  std::vector<netlink::IpAddress> load_balancer_ips;  // those that this node shall answer for
  std::vector<netlink::IpPrefix> source_ranges;       // effective; empty: everybody may come
  std::optional<std::uint32_t> affinity_seconds;      // ClientIP affinity
  bool external_policy_local = false;
  bool internal_policy_local = false;
  bool externally_accessible = false;        // a node port, load-balancer or external IP
  std::uint16_t health_check_node_port = 0;  // only of LoadBalancer Services with Local policy
  bool is_cut = false;                       // the Service asks for more than it gets

  bool uses_cluster() const { return !internal_policy_local || externally_accessible; }
  bool uses_local() const {
    return internal_policy_local || (external_policy_local && externally_accessible);
  }
};

// The ports of the Service in the family, in the order of its spec; none if it is headless, an
// ExternalName or has no cluster IP of the family. Without `allow_external_ips` its external IPs
// are left out (they still make it externally accessible). Of a Service that asks for more than
// kMostOfOneService the last ports are left out; of the first one, if it asks for more than that by
// itself, the last addresses.
std::vector<ServicePort> service_ports(const api::Service& service, netlink::Family family,
                                       bool allow_external_ips);

}  // namespace ipvsproxier::model
