#pragma once

// The facts about this node that the planner needs besides the cluster's objects. Pure; any thread.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ipset/nft/untracked_types.h"
#include "netlink/links/link_types.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::plan {

// This node's IP of each family over the life of the process: the first InternalIP of its Node,
// else the first ExternalIP. An IP that the Node no longer names stays valid, and an ExternalIP
// never replaces an InternalIP: a Node may be without addresses for a while, for example when it is
// created again.
class NodeIps {
 public:
  // Without `follow` the IPs of the first Node that names any stay for good (as in kube-proxy). A
  // bind address other than the unspecified one replaces the IP of its family.
  explicit NodeIps(bool follow = true,
                   const std::optional<netlink::IpAddress>& bind_address = std::nullopt);

  void take(const std::optional<api::Node>& node);
  // An IP from an earlier run: valid until the Node names one.
  void recall(const netlink::IpAddress& address);

  bool knows(netlink::Family family) const { return known_.contains(family); }
  // Whether the Node names the IP now, or the configuration does; if not, it is the last known one.
  bool is_current(netlink::Family family) const {
    const auto it = known_.find(family);
    return it != known_.end() && it->second.current;
  }
  // The IP of the family; loopback if none is known.
  netlink::IpAddress of(netlink::Family family) const;

 private:
  // Later values take precedence.
  enum class Source : std::uint8_t { recalled, external, internal, configured };
  struct Known {
    netlink::IpAddress address;
    Source source = Source::recalled;
    bool current = true;
  };

  void note(const std::vector<netlink::IpAddress>& addresses, Source source);

  bool follows_;
  bool settled_ = false;  // no further Node is considered
  std::map<netlink::Family, Known> known_;
};

struct NodeInfo {
  std::string name;
  std::string zone;                                   // "" if unknown
  std::map<netlink::Family, netlink::IpAddress> ips;  // one for each family; loopback if unknown
  std::vector<netlink::IpPrefix> pod_cidrs;           // spec.podCIDRs
  std::vector<netlink::InterfaceAddress> addresses;   // all addresses on all links
  // Of these: what rules keep from connection tracking, and name the address.
  std::vector<ipset::UntrackedPorts> untracked;
  // Of each family that cannot have node ports on localhost: why, in words.
  std::map<netlink::Family, std::string> no_localhost;
};

// Joins the parts into a NodeInfo.
NodeInfo node_info(std::string name, const std::optional<api::Node>& node, const NodeIps& ips,
                   std::vector<netlink::InterfaceAddress> addresses);

}  // namespace ipvsproxier::plan
