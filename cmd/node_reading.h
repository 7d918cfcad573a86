#pragma once

// What this network namespace holds that decides about packets, read from the kernel for one
// explanation. Loads no module, makes no table, writes nothing. One thread.

#include <map>
#include <memory>
#include <set>
#include <string>

#include "ipset/rule_iptc.h"
#include "ipset/set_libipset.h"
#include "netlink/host_reader.h"
#include "netlink/ipvs_table.h"
#include "proxier/inspect/packet.h"

namespace ipvsproxier::cmd {

struct NodeTables {
  std::unique_ptr<netlink::HostReader> host;
  std::unique_ptr<netlink::IpvsTable> ipvs;    // nullptr: the module is not loaded
  std::unique_ptr<ipset::LibipsetTable> sets;  // nullptr: the module is not loaded
  ipset::IptcRuleTable rules;
};

netlink::Result<NodeTables> open_node_tables();

using RuleTables = std::map<plan::TableKey, ipset::WholeTable>;

// Adds those of raw, mangle, nat and filter that the family has.
netlink::Status read_rule_tables(ipset::IptcRuleTable& rules, netlink::Family family,
                                 RuleTables& tables);

// The sets that their rules ask.
std::set<std::string> consulted_sets(const RuleTables& tables);

// Rules and sets of the destination's family, and the virtual services at that address, at those to
// which rules translate or by firewall mark, with their servers. A set that cannot be read is left
// out; what else cannot be read is the error, for nothing true could be said without it.
netlink::Result<inspect::NodeReading> read_node(NodeTables& tables,
                                                const netlink::IpAddress& destination);

}  // namespace ipvsproxier::cmd
