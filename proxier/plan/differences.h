#pragma once

// Deliberate differences from kube-proxy in what the kernel holds at rest. Each is on by default
// and has a flag (cmd/command_line.cc); docs/differences.md tells the reasons.

namespace ipvsproxier::plan {

struct Differences {
  // Echo requests to service addresses are answered.
  bool vip_ping = true;
  // internalTrafficPolicy Local never falls back to endpoints on other nodes.
  bool strict_internal_traffic_policy = true;
  // A healthCheckNodePort is open also where no address of the node carries node ports.
  bool open_health_check_ports = true;
  // The set for hairpin traffic holds only endpoints that get traffic of their Service.
  bool lean_loop_back = true;
  // A set that becomes too small is replaced by a larger one.
  bool growing_sets = true;
  // VIPs that no longer fit on kube-ipvs0 go to further links.
  bool spread_addresses = true;
  // The node's IPs are the last that its Node named, not those of the start; and while none is
  // known, node ports that belong on it are nowhere, not everywhere.
  bool follow_node_ip = true;
  // The schedulers mh and sh pass over real servers that drain; without, they refuse the new
  // connections that fall to one.
  bool scheduler_fallback = true;
  // Loopback addresses are no Service's; IPv6 link-local ones leave our links with theirs.
  bool unbind_special = true;

  friend bool operator==(const Differences&, const Differences&) = default;
};

inline constexpr Differences kKubeProxyCompat = {
    .vip_ping = false,
    .strict_internal_traffic_policy = false,
    .open_health_check_ports = false,
    .lean_loop_back = false,
    .growing_sets = false,
    .spread_addresses = false,
    .follow_node_ip = false,
    .scheduler_fallback = false,
    .unbind_special = false,
};

}  // namespace ipvsproxier::plan
