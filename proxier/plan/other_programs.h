#pragma once

// What other programs of this node have of addresses on their links. Pure; any thread.
//
// An address on such a link, some ports of which rules keep from connection tracking
// (ipset/nft/untracked_ports.h), is one at which a program listens, as NodeLocal DNS does at the
// address of the cluster DNS: these ports are left to it (Differences::leave_untracked).

#include <compare>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/nft/untracked_types.h"
#include "netlink/ip_address.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/plan/node_info.h"

namespace ipvsproxier::plan {

struct PlannerOptions;

// The link to which kube-router's service proxy binds all addresses of Services. While it is there,
// virtual services on its addresses are a predecessor's, and so are those of node ports that
// Services have; it carries no node ports, and its addresses are bound to our links as well.
inline constexpr std::string_view kKubeRouterLink = "kube-dummy-if";

// Its addresses; none if its state is not taken over.
std::set<netlink::IpAddress> inherited_addresses(const NodeInfo& node,
                                                 const PlannerOptions& options);
// What is told of it.
api::Problem inherited_problem();

// Ports that the program of a link has.
struct LeftPorts {
  ipset::UntrackedPorts ports;
  std::string link;

  friend auto operator<=>(const LeftPorts&, const LeftPorts&) = default;
};

// Of a family, sorted. An address of the Node itself is no program's.
std::vector<LeftPorts> left_ports(const NodeInfo& node, netlink::Family family);
// nullptr: it is left to no program.
const LeftPorts* left_to(const std::vector<LeftPorts>& left, const netlink::VirtualServiceKey& key);

// Addresses of this node that carry no node ports, because they are those of such a program, or of
// kube-router. They are all addresses of its link, unless that link is in a network or has an
// address of the Node.
std::set<netlink::IpAddress> program_addresses(const NodeInfo& node, netlink::Family family,
                                               const PlannerOptions& options);

// "link nodelocaldns of another program has 10.96.0.10, and rules (NOTRACK, in legacy IPv4 table
// raw) keep packets to 53/TCP and 53/UDP there from connection tracking"; of the first address
// among them.
std::string text_of_left(const std::vector<LeftPorts>& left);

// What is told of a Service that asks for such ports; `is_left`: it does not get them.
api::Problem left_problem(const api::Service& service, const std::vector<LeftPorts>& left,
                          bool is_left);

inline constexpr std::string_view kLeftRemedy =
    "let that program do without the address (NodeLocal DNS: -localip without it), and remove "
    "those rules, where the Service shall have it";

}  // namespace ipvsproxier::plan
