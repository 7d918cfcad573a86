#pragma once

// Values that are valid in a configuration but do not fit this node: kube-proxy's checks after
// validation. Pure.

#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

struct NodeFamilies {
  netlink::Family primary = netlink::Family::ipv4;
  bool dual_stack = false;  // this host can proxy both families
  std::vector<netlink::IpPrefix> pod_cidrs;
  bool primary_missing = false;  // this host cannot proxy the primary family
};

// For a host that can proxy `families`. The primary family is that of the bind address, else of the
// Node's first InternalIP, else of its first ExternalIP; else IPv4.
NodeFamilies node_families(const KubeProxyConfig& config,
                           const std::vector<netlink::Family>& families,
                           const std::optional<api::Node>& node);

// Warnings, and errors where kube-proxy would exit: a host without the node's primary family; on a
// single-stack node, detectLocalMode ClusterCIDR or NodeCIDR with ranges of the other family only.
api::Problems config_warnings(const KubeProxyConfig& config, const NodeFamilies& node,
                              const std::string& origin);

}  // namespace ipvsproxier::config
