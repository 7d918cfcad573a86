#pragma once

// A random cluster as the kernel of one node would have it, through either packet filter, for walks
// of packets (cmd/ipvsctl/explain). Other nodes, and clients, are behind the gateway of eth0; this
// node's pods are behind cni0.

#include <set>
#include <vector>

#include "cmd/ipvsctl/explain/packet.h"
#include "netlink/links/host_reader.h"
#include "proxier/plan/planner.h"
#include "test/support/random_cluster.h"

namespace ipvsproxier::test {

// What the cluster is, whoever renders it.
struct WalkedCluster {
  model::ClusterState cluster;
  plan::NodeInfo node;
  plan::PlannerOptions options;
  std::set<netlink::IpAddress> local_pods;
  std::set<netlink::IpAddress> remote_pods;
  std::set<std::uint16_t> health_ports;
  std::set<netlink::Family> bridge_calls;
};

// Each address is of one node, and some endpoints of this node have the node's own address.
WalkedCluster walked_cluster(RandomCluster& random, int services);

// The node with the cluster planned for this packet filter, and nothing else but sockets: TCP 2, 22
// and the health ports, UDP 53, on all addresses.
ctl::NodeReading reading_of(const WalkedCluster& world, ipset::PacketFilter filter);

// Routes of that node.
class WalkedHost final : public netlink::HostReader {
 public:
  WalkedHost(const WalkedCluster& world, const ctl::NodeReading& reading);

  netlink::Result<std::vector<netlink::LinkRecord>> links() override;
  netlink::Result<std::vector<netlink::AddressRecord>> addresses() override;
  netlink::Result<std::vector<netlink::Listener>> listeners() override;
  netlink::Result<netlink::Route> route(const netlink::RouteQuestion& question) override;

 private:
  const WalkedCluster& world_;
  const ctl::NodeReading& reading_;
  std::set<netlink::IpAddress> own_;
};

}  // namespace ipvsproxier::test
