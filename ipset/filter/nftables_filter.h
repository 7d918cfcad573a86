#pragma once

// Renders traffic for nf_tables: elements of the sets and maps of our table (rules/nft_catalog.h).
// Pure; any thread.

#include "ipset/filter/rendered.h"

namespace ipvsproxier::ipset {

void render_nftables(const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
                     Rendered& rendered);
void render_nftables(const SharedTraffic& traffic, Rendered& rendered);

}  // namespace ipvsproxier::ipset
