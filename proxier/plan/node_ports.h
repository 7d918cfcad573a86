#pragma once

// Which addresses of this node carry node ports, and which addresses other links hold. Pure.

#include <optional>
#include <set>
#include <vector>

#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

// The family's addresses on every link but the dummy one, without loopback and IPv6 link-local.
std::set<netlink::IpAddress> other_link_addresses(const NodeInfo& node, netlink::Family family);

// The addresses that get a virtual server for each node port. `dummy_addresses` are those that the
// dummy link will hold: a CIDR of nodePortAddresses may cover them.
std::set<netlink::IpAddress> node_port_addresses(
    const NodeInfo& node, netlink::Family family, const PlannerOptions& options,
    const std::set<netlink::IpAddress>& dummy_addresses);

// Where virtual services of the kernel are node ports of this cluster's Services: the one address
// of this node, which no Service claims for itself. nullopt: there is none, or several.
std::optional<netlink::IpAddress> left_node_port_address(
    const std::vector<netlink::VirtualService>& services, const model::ClusterState& cluster,
    const NodeInfo& node, netlink::Family family, const PlannerOptions& options);

// Where the health servers of Services listen: the addresses in the ranges of nodePortAddresses,
// loopback included, on every link but the dummy one; IPv6 link-local ones, which say nothing
// without their link, left out. nullopt: every address.
std::optional<std::set<netlink::IpAddress>> health_addresses(const NodeInfo& node,
                                                             netlink::Family family,
                                                             const PlannerOptions& options);

}  // namespace ipvsproxier::plan
