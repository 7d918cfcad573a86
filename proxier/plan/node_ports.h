#pragma once

// Which addresses of this node carry node ports, and which addresses are on links other than ours.
// Pure; any thread.

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "proxier/plan/planner.h"

namespace ipvsproxier::plan {

// The family's addresses on all links except our dummy links and the one of this name, without
// loopback and IPv6 link-local.
std::set<netlink::IpAddress> other_link_addresses(const NodeInfo& node, netlink::Family family,
                                                  std::string_view except = {});

// The addresses that get a virtual server for each node port. `dummy_addresses` are the addresses
// that our dummy links will hold: a CIDR of nodePortAddresses may cover them.
std::set<netlink::IpAddress> node_port_addresses(
    const NodeInfo& node, netlink::Family family, const PlannerOptions& options,
    const std::set<netlink::IpAddress>& dummy_addresses);

// The only address of this node at which virtual services in the kernel match node ports of this
// cluster's Services, while no Service claims the address for itself: the node's IP of an earlier
// run. nullopt: there is none, or more than one.
std::optional<netlink::IpAddress> left_node_port_address(
    const std::vector<netlink::VirtualService>& services, const model::ClusterState& cluster,
    const NodeInfo& node, netlink::Family family, const PlannerOptions& options);

// The addresses on which the health servers of Services listen: addresses within nodePortAddresses,
// including loopback, on all links except our dummy links, without IPv6 link-local addresses (which
// mean nothing without their link). nullopt: all addresses.
std::optional<std::set<netlink::IpAddress>> health_addresses(const NodeInfo& node,
                                                             netlink::Family family,
                                                             const PlannerOptions& options);

}  // namespace ipvsproxier::plan
