#pragma once

// What is allowed in a configuration but does not fit this node: kube-proxy's checks after
// validation. Pure.

#include <string>
#include <vector>

#include "cmd/kube_proxy_config.h"
#include "netlink/ip_address.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::cmd {

struct NodeFamilies {
  netlink::Family primary = netlink::Family::ipv4;
  bool dual_stack = false;  // this host can proxy both
  std::vector<netlink::IpPrefix> pod_cidrs;
};

// Warnings, and an error where kube-proxy would end: ClusterCIDR on a node of one family with
// ranges of the other only, or NodeCIDR with pod CIDRs of the other only.
api::Problems config_doubts(const KubeProxyConfig& config, const NodeFamilies& node,
                            const std::string& origin);

}  // namespace ipvsproxier::cmd
