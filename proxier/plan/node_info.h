#pragma once

// What the planner must know of this node besides the cluster's objects. Pure; any thread.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/link_types.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::plan {

struct NodeInfo {
  std::string name;
  std::string zone;                                   // "" where unknown
  std::map<netlink::Family, netlink::IpAddress> ips;  // one a family; loopback where there is none
  bool ips_known = false;                             // the Node names some
  std::vector<netlink::IpPrefix> pod_cidrs;           // spec.podCIDRs
  std::vector<netlink::InterfaceAddress> addresses;   // all of them, on all links
};

// Joins what is known. Node IPs are the first InternalIP, else ExternalIP, of each family; a bind
// address that is not the unspecified one takes the place of its family's.
NodeInfo node_info(std::string name, const std::optional<api::Node>& node,
                   const std::optional<netlink::IpAddress>& bind_address,
                   std::vector<netlink::InterfaceAddress> addresses);

}  // namespace ipvsproxier::plan
