#pragma once

// Deliberate differences from kube-proxy in the resulting kernel state. Each is on by default and
// has a flag (cmd/command_line.cc); docs/differences.md gives the reasons.

namespace ipvsproxier::plan {

struct Differences {
  // Echo requests to service addresses are answered.
  bool vip_ping = true;
  // internalTrafficPolicy Local never falls back to endpoints on other nodes.
  bool strict_internal_traffic_policy = true;
  // A healthCheckNodePort is open even if no address of the node carries node ports. It answers at
  // the addresses of the Service's load balancer, too, and so does the port of /healthz.
  bool open_health_check_ports = true;
  // The set for hairpin traffic holds only endpoints that get traffic from their Service.
  bool lean_loop_back = true;
  // Most packets meet fewer rules of iptables (RuleParameters::short_paths).
  bool short_paths = true;
  // A set that is too small is replaced by a larger one.
  bool growing_sets = true;
  // VIPs beyond the capacity of kube-ipvs0 go to further links.
  bool spread_addresses = true;
  // The node's IPs follow the Node object instead of staying those of the start. While none is
  // known, node ports for the node's IP are opened on no address instead of all.
  bool follow_node_ip = true;
  // The schedulers mh and sh pass over draining real servers; without the flag, new connections
  // that fall to a draining server are refused.
  bool scheduler_fallback = true;
  // Loopback addresses never belong to a Service; IPv6 link-local addresses are removed from our
  // links with their Services.
  bool unbind_special = true;
  // Virtual services that other programs made stay, and a Service that claims one of them does not
  // get it.
  bool keep_foreign_services = true;
  // With nf_tables this node and its pods reach Services of external policy Local as those of
  // policy Cluster, and where this node has no endpoint, others are not served by endpoints
  // elsewhere.
  bool in_cluster_clients = true;
  // No Service gets an address of the API server (api_server.h).
  bool guard_api_server = true;
  // Node ports are on no address of a Service, whatever nodePortAddresses covers.
  bool node_ports_on_node_only = true;
  // Annotations of Services and EndpointSlices count (docs/services.md).
  bool service_annotations = true;
  // A ready endpoint wins over others with the same address and port.
  bool ready_wins = true;
  // TCP packets of pods and endpoints that conntrack finds invalid are dropped, unless
  // conntrack.tcpBeLiberal is set (RuleParameters::drop_invalid).
  bool drop_invalid = true;
  // Real servers of SCTP keep their associations until these end, as those of TCP do.
  bool drain_sctp = true;
  // Ports of an address on a link of another program that rules keep from connection tracking are
  // left to that program (other_programs.h).
  bool leave_untracked = true;
  // What kube-router's service proxy left is taken over as kube-proxy's state is
  // (other_programs.h).
  bool take_over_kube_router = true;

  friend bool operator==(const Differences&, const Differences&) = default;
};

inline constexpr Differences kKubeProxyCompat = {
    .vip_ping = false,
    .strict_internal_traffic_policy = false,
    .open_health_check_ports = false,
    .lean_loop_back = false,
    .short_paths = false,
    .growing_sets = false,
    .spread_addresses = false,
    .follow_node_ip = false,
    .scheduler_fallback = false,
    .unbind_special = false,
    .keep_foreign_services = false,
    .in_cluster_clients = false,
    .guard_api_server = false,
    .node_ports_on_node_only = false,
    .service_annotations = false,
    .ready_wins = false,
    .drop_invalid = false,
    .drain_sctp = false,
    .leave_untracked = false,
    .take_over_kube_router = false,
};

}  // namespace ipvsproxier::plan
