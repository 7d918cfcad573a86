#pragma once

// Reads the state of this network namespace that decides about packets, for one explanation. Loads
// no module, creates no table, writes nothing. One thread.

#include <memory>

#include "cmd/ipvsctl/explain/consulted_sets.h"
#include "cmd/ipvsctl/explain/packet.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/ipvs/ipvs_table.h"
#include "netlink/links/host_reader.h"

namespace ipvsproxier::ctl {

struct NodeTables {
  std::unique_ptr<netlink::HostReader> host;
  std::unique_ptr<netlink::IpvsTable> ipvs;      // nullptr: the module is not loaded
  std::unique_ptr<ipset::LibipsetTable> sets;    // nullptr: the module is not loaded
  std::unique_ptr<ipset::FilterTable> nftables;  // nullptr: the module is not loaded
  ipset::IptcRuleTable rules;
};

netlink::Result<NodeTables> open_node_tables();

// Adds the existing tables raw, mangle, nat and filter of the family.
netlink::Status read_rule_tables(ipset::IptcRuleTable& rules, netlink::Family family,
                                 RuleTables& tables);

// Reads rules and sets of the destination's family, and the virtual services, with their servers,
// at that address, at the addresses to which rules translate, and by firewall mark. An unreadable
// set is left out; any other failure is returned, because an explanation would be wrong without
// that part.
netlink::Result<NodeReading> read_node(NodeTables& tables, const netlink::IpAddress& destination);

}  // namespace ipvsproxier::ctl
