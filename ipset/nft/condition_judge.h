#pragma once

// Whether matches of iptables hold for a packet of which not all is known, in legacy iptables and
// in iptables-nft. Pure; any thread.

#include "ipset/nft/firewall_packet.h"
#include "ipset/nft/truth.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

Truth judge(const Match& match, const FirewallPacket& packet);
Truth judge(const Condition& condition, const FirewallPacket& packet);

}  // namespace ipvsproxier::ipset
