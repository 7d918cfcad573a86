#pragma once

// The nftables tables that kube-proxy's nftables mode keeps: we only ever remove them. In the
// network namespace of the calling thread, which blocks for it.

#include <string>

#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// "kube-proxy", of each family.
inline constexpr const char* kNftTable = "kube-proxy";

// Removes the table of this name with all that is in it; true if there was one. A kernel without
// nf_tables, or without this family of it, has none. nf_tables is loaded by asking, where the
// kernel has it as a module.
netlink::Result<bool> remove_nft_table(netlink::Family family, const std::string& name);

}  // namespace ipvsproxier::ipset
