#pragma once

// What is allowed in a configuration but does not fit this node: kube-proxy's checks after
// validation. Pure.

#include <optional>
#include <string>
#include <vector>

#include "cmd/kube_proxy_config.h"
#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

struct NodeFamilies {
  netlink::Family primary = netlink::Family::ipv4;
  bool dual_stack = false;  // this host can proxy both
  std::vector<netlink::IpPrefix> pod_cidrs;
  bool primary_missing = false;  // this host cannot proxy it
};

// Of a host that can proxy `families`. The first family is that of the bind address, else of the
// Node's first InternalIP, else ExternalIP; IPv4 where there is none.
NodeFamilies node_families(const KubeProxyConfig& config,
                           const std::vector<netlink::Family>& families,
                           const std::optional<api::Node>& node);

// Warnings, and an error where kube-proxy would end: a host without the node's first family,
// ClusterCIDR on a node of one family with
// ranges of the other only, or NodeCIDR with pod CIDRs of the other only.
api::Problems config_doubts(const KubeProxyConfig& config, const NodeFamilies& node,
                            const std::string& origin);

}  // namespace ipvsproxier::cmd
