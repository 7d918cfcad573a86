#pragma once

// What kube-proxy left in nf_tables: the tables of its nftables mode, and the rules of its other
// modes where its iptables is the one that writes to nf_tables ("iptables-nft"). None of it is
// ours; we only ever remove it. In the network namespace of the calling thread, which blocks for
// it.

#include <string>
#include <vector>

#include "ipset/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// Of nftables mode, in each family.
inline constexpr const char* kNftTable = "kube-proxy";

// Removes the table of nftables mode, and from iptables-nft's tables filter, nat and mangle the
// chains that all_removals() names with the jumps to them; all else stays, also the kubelet's. A
// kernel without nf_tables, or without this family of it, has nothing of the kind. nf_tables is
// loaded by asking, where the kernel has it as a module.
netlink::Result<RemovedNft> remove_nft_leftovers(netlink::Family family);

// The same while our rules in the legacy tables take their place. A chain that accepts what the
// built-in chain before it drops by policy stays, with the jumps to it: no accept in the legacy
// tables can do its work (nft_chains.h). Warns of chains that drop by policy.
netlink::Result<RemovedNft> take_over_nft_leftovers(netlink::Family family);

// Of the chains of this family that drop what is of Services by policy; those of both families
// (inet) are told with IPv4's.
netlink::Result<std::vector<std::string>> nft_warnings(netlink::Family family);

}  // namespace ipvsproxier::ipset
