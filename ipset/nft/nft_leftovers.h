#pragma once

// Removal of kube-proxy's leftovers from nf_tables: the table of its nftables mode, and the rules
// of its other modes if its iptables writes to nf_tables ("iptables-nft"). Our own table of
// nf_tables is no matter of this file (ipset/nftables/). Blocks. One thread.

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// The table of nftables mode, one in each family.
inline constexpr const char* kNftTable = "kube-proxy";

// Removes the table of nftables mode. From the tables filter, nat and mangle of iptables-nft it
// removes the chains that all_removals() names and the jumps to them; everything else stays,
// including kubelet's chains. `kube_router`: and the chains that kube_router_removals() names.
netlink::Result<RemovedNft> remove_nft_leftovers(FilterTable& nftables, netlink::Family family,
                                                 bool kube_router = false);

// Like remove_nft_leftovers(), for the moment when our rules in the legacy tables replace the
// leftovers. A chain that accepts packets which its built-in chain drops by policy stays, with the
// jumps to it: no rule in the legacy tables can replace it.
netlink::Result<RemovedNft> take_over_nft_leftovers(FilterTable& nftables, netlink::Family family,
                                                    bool kube_router = false);

// Whether kube-proxy's table of nftables mode is there, or chains of iptables-nft in which its
// iptables mode translates destinations.
netlink::Result<bool> nft_translates(FilterTable& nftables, netlink::Family family);

}  // namespace ipvsproxier::ipset
