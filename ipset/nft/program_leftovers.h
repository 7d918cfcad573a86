#pragma once

// Finds chains of other programs for Services that reject packets of Services or give them another
// destination, or keep those of pods from connection tracking: what Cilium or Antrea leaves when it
// ends. Known by names of chains, to which a built-in chain leads, and
// by what their rules do; chains that only accept, mark or masquerade are not told, because these
// programs have them while they run as networks of pods. Pure but for what reads nf_tables; any
// thread.

#include <vector>

#include "ipset/nft/host_firewall.h"
#include "ipset/nft/read_table.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// One warning for each chain.
std::vector<FirewallWarning> find_program_leftovers(netlink::Family family, Table table,
                                                    const WholeTable& whole);
// Of a table of iptables-nft.
std::vector<FirewallWarning> find_program_leftovers(ReadTable& table);

}  // namespace ipvsproxier::ipset
