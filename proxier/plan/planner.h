#pragma once

// The planner: cluster objects and this node in, the kernel state that they ask for out. Pure,
// total and deterministic: no I/O, no clock, no chance. Any thread.

#include <optional>
#include <string>
#include <vector>

#include "proxier/api/problem.h"
#include "proxier/model/cluster_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/node_info.h"

namespace ipvsproxier::plan {

// How traffic of pods on this node is told from other traffic (detectLocalMode).
enum class DetectLocalMode : std::uint8_t {
  cluster_cidr,
  node_cidr,
  bridge_interface,
  interface_name_prefix,
};

struct PlannerOptions {
  std::vector<netlink::Family> families = {netlink::Family::ipv4, netlink::Family::ipv6};
  std::string scheduler = "rr";
  std::uint32_t masquerade_mark = 0x4000;
  bool masquerade_all = false;
  DetectLocalMode detect_local = DetectLocalMode::cluster_cidr;
  std::vector<netlink::IpPrefix> cluster_cidrs;
  std::string bridge_interface;
  std::string interface_prefix;
  std::vector<netlink::IpPrefix> node_port_addresses;  // empty: every address
  bool node_port_primary = false;                      // only the node's own IPs
  std::vector<netlink::IpPrefix> exclude_cidrs;
  bool allow_external_ips = true;
  bool vip_ping = true;  // a VIP answers echo requests
};

struct Plan {
  DesiredState state;
  api::Problems problems;  // conflicts between Services: what was left out and why
};

Plan plan(const model::ClusterState& cluster, const NodeInfo& node, const PlannerOptions& options);

}  // namespace ipvsproxier::plan
