#pragma once

// Renders traffic for legacy iptables: the sets and their meaning are kube-proxy's, except
// kOwnSetIds (sets/set_catalog.h). Pure; any thread.

#include "ipset/filter/rendered.h"

namespace ipvsproxier::ipset {

void render_iptables(const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
                     Rendered& rendered);
void render_iptables(const SharedTraffic& traffic, Rendered& rendered);

}  // namespace ipvsproxier::ipset
