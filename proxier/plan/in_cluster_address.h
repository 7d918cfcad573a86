#pragma once

// The address of this node's own by which clients within the cluster reach a Service whose external
// and internal policy are both Local: its cluster IP has endpoints of this node alone. It is the
// cluster IP with the first bits of a range that nobody else uses, so it is the same after each
// start and whatever else the cluster has. Where two cluster IPs differ in those first bits alone,
// one Service has it (claims.h). Pure; any thread.

#include <optional>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/model/service_port.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

// The range of one family, as it is on this node.
struct InClusterRange {
  std::optional<netlink::IpPrefix> range;  // nullopt: there are no such addresses
  std::vector<netlink::IpPrefix> taken;    // networks of the node and of its pods

  friend bool operator==(const InClusterRange&, const InClusterRange&) = default;
};

InClusterRange in_cluster_range(netlink::Family family, const NodeInfo& node,
                                const PlannerOptions& options);

// The first bits of the range, the others of the cluster IP.
netlink::IpAddress in_cluster_address(const netlink::IpPrefix& range,
                                      const netlink::IpAddress& cluster_ip);

// The address of the port's Service; nullopt: it needs none, there is no range, or the address is
// taken (in_cluster_problem()).
std::optional<netlink::IpAddress> in_cluster_address(const model::ServicePort& port,
                                                     const InClusterRange& range);

// Why a Service that needs such an address has none; nullopt: it needs none, or has one.
std::optional<api::Problem> in_cluster_problem(const std::vector<model::ServicePort>& ports,
                                               const InClusterRange& range);

}  // namespace ipvsproxier::plan
