#pragma once

// What the planner must know of this node besides the cluster's objects. Pure; any thread.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/link_types.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::plan {

// This node's IP of each family while a process lives: the first InternalIP of its Node, else the
// first ExternalIP. What the Node no longer names stays as it was last known, and an InternalIP
// gives way to no ExternalIP: a Node may be without for a while, as where it is made again.
class NodeIps {
 public:
  // Without `follow` the IPs of the first Node that names some stay (kube-proxy's way). A bind
  // address that is not the unspecified one takes the place of its family's.
  explicit NodeIps(bool follow = true,
                   const std::optional<netlink::IpAddress>& bind_address = std::nullopt);

  void take(const std::optional<api::Node>& node);
  // Known from elsewhere: it counts until the Node names one.
  void recall(const netlink::IpAddress& address);

  bool knows(netlink::Family family) const { return known_.contains(family); }
  // Whether it is the Node's, or configured, now; otherwise it is only what was known last.
  bool is_current(netlink::Family family) const {
    const auto it = known_.find(family);
    return it != known_.end() && it->second.current;
  }
  // Loopback where none is known.
  netlink::IpAddress of(netlink::Family family) const;

 private:
  // The later ones win.
  enum class Source : std::uint8_t { recalled, external, internal, configured };
  struct Known {
    netlink::IpAddress address;
    Source source = Source::recalled;
    bool current = true;
  };

  void note(const std::vector<netlink::IpAddress>& addresses, Source source);

  bool follows_;
  bool settled_ = false;  // nothing is taken any more
  std::map<netlink::Family, Known> known_;
};

struct NodeInfo {
  std::string name;
  std::string zone;                                   // "" where unknown
  std::map<netlink::Family, netlink::IpAddress> ips;  // one a family; loopback where there is none
  std::vector<netlink::IpPrefix> pod_cidrs;           // spec.podCIDRs
  std::vector<netlink::InterfaceAddress> addresses;   // all of them, on all links
};

// Joins what is known.
NodeInfo node_info(std::string name, const std::optional<api::Node>& node, const NodeIps& ips,
                   std::vector<netlink::InterfaceAddress> addresses);

}  // namespace ipvsproxier::plan
