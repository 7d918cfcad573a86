#pragma once

// The packet filter chains and jumps to remove: leftovers of kube-proxy's iptables mode, and, to
// hand a node back, also everything of ours. Pure functions; any thread.
//
// Both modes share the names of some chains and jumps: nat KUBE-SERVICES, KUBE-POSTROUTING and
// KUBE-MARK-MASQ, filter KUBE-FORWARD and KUBE-PROXY-FIREWALL. They count as ours once we have
// written them. KUBE-MARK-DROP, KUBE-FIREWALL, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT are
// kubelet's and stay.

#include <string>
#include <string_view>
#include <vector>

#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// The chain that rejects what is no port of an IPVS service that kube-router made.
inline constexpr std::string_view kRouterServices = "KUBE-ROUTER-SERVICES";

// Chains and jumps of iptables mode that are not also ours, in the tables filter, nat and mangle,
// in this order.
std::vector<RuleRemoval> iptables_mode_removals(netlink::Family family);

// Of these the nat chains of endpoints: as long as there is one, iptables mode translates
// destinations.
RuleRemoval translation_chains(netlink::Family family);

// All of iptables mode, and our own chains and jumps. `kube_router`: and kube_router_removals().
std::vector<RuleRemoval> all_removals(netlink::Family family, bool kube_router = false);

// Chains and jumps of kube-router's service proxy in the tables filter and nat. Those of its
// routing and its network policies are none of them, nor are its rules in the chain POSTROUTING.
std::vector<RuleRemoval> kube_router_removals(netlink::Family family);
// Its IP sets, as earlier versions named them, too.
std::vector<std::string> kube_router_sets(netlink::Family family);

// Earlier builds of this program had rules of legacy iptables for clients within the cluster and
// for node ports on localhost, in chains of ours and in chains of their own
// (is_of_earlier_build()), and sets for them.
bool is_of_earlier_build(const Rule& rule, netlink::Family family);
std::vector<std::string> sets_of_earlier_builds(netlink::Family family);

// Moves iptables mode's nat KUBE-SERVICES aside: it goes on translating destinations while our
// chain of that name is filled after it. iptables_mode_removals() removes the moved chain.
ChainMove services_move();

}  // namespace ipvsproxier::ipset
