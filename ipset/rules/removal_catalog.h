#pragma once

// The packet filter chains and jumps to remove: leftovers of kube-proxy's iptables mode, and, to
// hand a node back, also everything of ours. Pure functions; any thread.
//
// Both modes share the names of some chains and jumps: nat KUBE-SERVICES, KUBE-POSTROUTING and
// KUBE-MARK-MASQ, filter KUBE-FORWARD and KUBE-PROXY-FIREWALL. They count as ours once we have
// written them. KUBE-MARK-DROP, KUBE-FIREWALL, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT are
// kubelet's and stay.

#include <vector>

#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// Chains and jumps of iptables mode that are not also ours, in the tables filter, nat and mangle,
// in this order.
std::vector<RuleRemoval> iptables_mode_removals(netlink::Family family);

// Of these the nat chains of endpoints: as long as there is one, iptables mode translates
// destinations.
RuleRemoval translation_chains(netlink::Family family);

// All of iptables mode, and our own chains and jumps.
std::vector<RuleRemoval> all_removals(netlink::Family family);

// Moves iptables mode's nat KUBE-SERVICES aside: it goes on translating destinations while our
// chain of that name is filled after it. iptables_mode_removals() removes the moved chain.
ChainMove services_move();

}  // namespace ipvsproxier::ipset
