#pragma once

// ServicePort: one port of one Service in one family, with all values that the planner needs. Pure
// values; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxier/api/objects.h"
#include "proxier/model/service_settings.h"

namespace ipvsproxier::model {

// Limit in one family for each of: virtual services for external IPs; virtual services for
// load-balancer IPs; set elements for source ranges; endpoints, counted once for each port; real
// servers of virtual services other than node ports. Each of these numbers is a product of two or
// three lists in one or two objects, and has no other limit.
inline constexpr std::size_t kMostOfOneService = 262'144;

struct ServicePort {
  api::ServicePortName name;
  const api::Service* service = nullptr;  // must outlive this
  netlink::IpAddress cluster_ip;
  std::uint16_t port = 0;
  std::uint16_t node_port = 0;                        // 0: none
  std::vector<netlink::IpAddress> external_ips;       // empty if external IPs are not allowed
  std::vector<netlink::IpAddress> load_balancer_ips;  // those that this node answers for
  std::vector<netlink::IpPrefix> source_ranges;   // effective ranges; empty: any source is allowed
  std::optional<std::uint32_t> affinity_seconds;  // ClientIP affinity
  bool external_policy_local = false;
  bool internal_policy_local = false;
  bool externally_accessible = false;        // a node port, load-balancer or external IP
  std::uint16_t health_check_node_port = 0;  // only of LoadBalancer Services with Local policy
  bool is_cut = false;                       // the Service exceeds kMostOfOneService

  bool uses_cluster() const { return !internal_policy_local || externally_accessible; }
  bool uses_local() const {
    return internal_policy_local || (external_policy_local && externally_accessible);
  }
};

// The ports of the Service in the family, in the order of its spec. None if the Service is
// headless, is an ExternalName or has no cluster IP of the family. Without `allow_external_ips` its
// external IPs are left out (but still count for `externally_accessible`). If the Service exceeds
// kMostOfOneService, its last ports are left out; if the first port alone exceeds it, its last
// addresses. `settings`: those of the Service; by default it has none.
std::vector<ServicePort> service_ports(const api::Service& service, netlink::Family family,
                                       bool allow_external_ips,
                                       const ServiceSettings& settings = {});

}  // namespace ipvsproxier::model
