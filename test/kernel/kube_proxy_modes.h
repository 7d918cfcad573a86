#pragma once

// A node that a kube-proxy has left: what it serves, its state in each mode, and questions to it.

#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "test/kernel/cluster.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::test {

// The Services of the states in test/reference/{iptables,nftables}_mode: "web" and "lb", with an
// endpoint on this node and one on the other, and "empty". "web" may have a further port, 81.
void put_mode_services(Manifests& manifests, const Cluster& cluster, bool more_ports = false);

// Where kube-proxy's iptables writes.
enum class Iptables : std::uint8_t { legacy, nft };

// As kube-proxy left the node in iptables mode; nothing is flushed.
void restore_iptables_mode(const Netns& netns, Iptables iptables);
// In nftables mode.
void restore_nftables_mode(const Netns& netns);
// In ipvs mode, with the Services of the manifests.
void restore_ipvs_mode(const Netns& netns, const Manifests& manifests, Iptables iptables);

// What an earlier build of this program left, which had clients within the cluster and node ports
// on localhost in legacy iptables, with those Services and that of put_local_service().
void restore_earlier_build(const Netns& netns);
// "local", of external policy Local, whose one endpoint is on the other node.
void put_local_service(Manifests& manifests, const Cluster& cluster);

// Writes the rules of the legacy tables into iptables-nft as well.
void copy_to_iptables_nft(const Netns& netns);

// Long connections from everywhere, to the cluster IPs and the node port of "web".
void open_mode_connections(const Cluster& cluster, LongConnections& connections);

// The load balancer lets its source ranges in, and nobody else.
void check_mode_load_balancer(const Cluster& cluster);

}  // namespace ipvsproxier::test
