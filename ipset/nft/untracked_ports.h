#pragma once

// Finds ports of addresses whose packets rules keep from connection tracking (NOTRACK), as
// NodeLocal DNS does for the addresses on which it listens. IPVS would take such packets all the
// same, and nothing would masquerade them or know their answers.
//
// A rule counts if it names the address: others, such as those for the port of VXLAN, are about
// the packets of all addresses. What a rule asks for besides (a source, a link) may be so. One
// thread.

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ipset/judge/look_budget.h"
#include "ipset/nft/untracked_types.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

struct UntrackedLook {
  std::vector<UntrackedPorts> ports;            // sorted
  std::map<std::string, std::string> unjudged;  // tables not all of which was judged, and why
};

// Most numbers of ports that the rules of one table may name: more are not judged.
inline constexpr std::size_t kMostUntrackedBounds = 512;

// Of these addresses, which are this node's. Reads the tables that have base chains before
// connection tracking.
netlink::Result<UntrackedLook> find_untracked_ports(FilterTable& nftables,
                                                    const std::set<netlink::IpAddress>& addresses,
                                                    LookBudget& budget);
std::string legacy_raw_name(netlink::Family family);  // "legacy IPv4 table raw"
// The same for the legacy table raw of a family.
UntrackedLook find_legacy_untracked_ports(netlink::Family family, const WholeTable& table,
                                          const std::set<netlink::IpAddress>& addresses,
                                          LookBudget& budget);

}  // namespace ipvsproxier::ipset
