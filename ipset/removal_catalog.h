#pragma once

// What is removed from the packet filter: what kube-proxy's iptables mode leaves and nobody needs
// any more, and, to hand back a node, everything of ours besides. Pure functions; any thread.
//
// Both modes share the names of some chains and jumps: nat KUBE-SERVICES, KUBE-POSTROUTING and
// KUBE-MARK-MASQ, filter KUBE-FORWARD and KUBE-PROXY-FIREWALL. Those are ours as soon as we have
// written them. KUBE-MARK-DROP, KUBE-FIREWALL, KUBE-KUBELET-CANARY and KUBE-IPTABLES-HINT are the
// kubelet's.

#include <vector>

#include "ipset/rule_types.h"

namespace ipvsproxier::ipset {

// Of the tables filter, nat and mangle, in this order: chains and jumps of iptables mode that are
// not ours as well.
std::vector<RuleRemoval> iptables_mode_removals(netlink::Family family);

// The same with ours.
std::vector<RuleRemoval> all_removals(netlink::Family family);

// Where iptables mode's own nat KUBE-SERVICES goes on translating destinations while ours is
// filled behind it. iptables_mode_removals() has it.
ChainMove services_move();

}  // namespace ipvsproxier::ipset
