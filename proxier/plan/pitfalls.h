#pragma once

// Settings of a node that are not the daemon's to change, and under which connections fail that
// have to do with Services. Pure; any thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/plan/node_info.h"

namespace ipvsproxier::plan {

// As the kernel shows them; nullopt: it has no such key.
struct NodeSettings {
  std::optional<std::string> local_ports;     // net/ipv4/ip_local_port_range: "32768 60999"
  std::optional<std::string> reserved_ports;  // net/ipv4/ip_local_reserved_ports: "8080,9000-9010"
  std::optional<std::string> keepalive;       // net/ipv4/tcp_keepalive_time, in seconds
  // net/bridge/bridge-nf-call-iptables and -ip6tables; none while br_netfilter is not loaded.
  std::optional<std::string> bridge_ipv4;
  std::optional<std::string> bridge_ipv6;
  // Whether one bridge passes packets to iptables (/sys/class/net/LINK/bridge/nf_call_iptables).
  struct Bridge {
    bool ipv4 = false;
    bool ipv6 = false;
  };
  std::map<std::string, Bridge> bridges;  // links with two ports or more, of those with addresses
};

struct Pitfall {
  std::string about;    // "sysctl net/ipv4/ip_local_port_range"
  std::string message;  // what happens
  std::string remedy;

  friend auto operator<=>(const Pitfall&, const Pitfall&) = default;
};

// The node's own connections may begin at a node port, and their answers go to a pod then: the
// kernel lets IPVS look at each packet to this node (net/netfilter/ipvs/ip_vs_core.c, LOCAL_IN).
// nullopt: the range has none of the ports that is not reserved.
std::optional<Pitfall> local_port_pitfall(const NodeSettings& settings,
                                          const std::set<std::uint16_t>& node_ports);

// The ports as ip_local_reserved_ports has them: "8080,9000-9010".
std::string port_list(const std::set<std::uint16_t>& ports);
// What that key has after these ports are added; nullopt: it has them all.
std::optional<std::string> with_reserved(const std::string& reserved,
                                         const std::set<std::uint16_t>& ports);

// A pod behind a bridge gets no answer from an endpoint behind the same bridge, because the answer
// does not come to IPVS (net/bridge/br_netfilter_hooks.c: the key of the namespace or of the bridge
// must be 1). `has_pods`: whether pods of this node are behind the link that has the address; asked
// of bridges alone.
std::optional<Pitfall> bridge_pitfall(
    const NodeSettings& settings, const std::vector<netlink::InterfaceAddress>& addresses,
    const std::function<bool(const netlink::InterfaceAddress&)>& has_pods);

// IPVS forgets a TCP connection that says nothing for this time (seconds), and the keep-alive that
// would keep it begins later.
std::optional<Pitfall> idle_pitfall(const NodeSettings& settings, std::uint32_t tcp_timeout);

}  // namespace ipvsproxier::plan
