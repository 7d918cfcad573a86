#pragma once

// The table "kube-ipvs-flows" of nf_tables. It is there while our packet filter is legacy iptables
// and rules of others add connections to a flowtable: its one rule keeps the connections of
// Services out of flowtables (ipset/nft/flow_rules.h), which no rule of iptables can. The rule
// takes all new connections that come in at this node: IPVS forwards those of Services, and the
// others end here, where no flowtable meets them.
//
// A table of this name that holds anything else is another program's: it is never changed.

#include <string_view>

#include "ipset/nftables/filter_table.h"
#include "netlink/ip_address.h"
#include "netlink/nftables/nftables_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

inline constexpr std::string_view kFlowTable = "kube-ipvs-flows";

// The object "unaccelerated" that rules for it refer to.
const netlink::NftExpectation& unaccelerated_object();

netlink::NftTableKey flow_table_of(netlink::Family family);

// Whether this is the content of our table, or of one that tells nothing of its maker.
bool is_flow_table(const FilterContents& contents, netlink::Family family);

// Whether the table is there and does what it is for.
netlink::Result<bool> has_flow_table(FilterTable& nftables, netlink::Family family);

// Makes the table, or makes it anew if it differs. `already`: it is another program's.
// `unsupported`: the kernel lacks a part.
netlink::Status make_flow_table(FilterTable& nftables, netlink::Family family);

// Removes the table. False: there is none, or it is another program's.
netlink::Result<bool> remove_flow_table(FilterTable& nftables, netlink::Family family);

}  // namespace ipvsproxier::ipset
