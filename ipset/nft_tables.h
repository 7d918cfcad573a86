#pragma once

// What kube-proxy left in nf_tables: the tables of its nftables mode, and the rules of its other
// modes where its iptables is the one that writes to nf_tables ("iptables-nft"). None of it is
// ours; we only ever remove it. In the network namespace of the calling thread, which blocks for
// it.

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

}  // namespace ipvsproxier::ipset
