#include "ipset/filter/rendered.h"

#include "ipset/filter/iptables_filter.h"
#include "ipset/filter/nftables_filter.h"

namespace ipvsproxier::ipset {

void render(PacketFilter filter, const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
            Rendered& rendered) {
  if (filter == PacketFilter::nftables)
    render_nftables(key, traffic, rendered);
  else
    render_iptables(key, traffic, rendered);
}

void render(PacketFilter filter, const SharedTraffic& traffic, Rendered& rendered) {
  if (filter == PacketFilter::nftables)
    render_nftables(traffic, rendered);
  else
    render_iptables(traffic, rendered);
}

}  // namespace ipvsproxier::ipset
