#pragma once

// What rules of others that add connections to a flowtable mean for connections of Services.
//
// IPVS changes the reply tuple of a connection in conntrack and sets no NAT bit for it, so that a
// flowtable takes the connection for one that is not translated: it sends answers with the pod's
// address, and requests with the VIP (net/netfilter/nf_flow_table_core.c, 6.1 to 7.2). So
// connections stall after the first answer. A connection to which conntrack has given the extension
// of helpers is not taken (nft_flow_offload_eval(), net/netfilter/nft_flow_offload.c): rules of
// ours give it to those of virtual services (UnacceleratedTarget). Pure; any thread.

#include <set>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ipset {

// The families whose connections such rules may add.
std::set<netlink::Family> families_of_flows(const std::vector<netlink::NftFlowRule>& rules);

// "nf_tables table inet nb, chain forward adds connections to flowtable f". Printable.
std::string name_of_flow_rule(const netlink::NftFlowRule& rule);

// What is said of such a rule, with what to do. `why`: why nothing keeps connections of Services
// out of the flowtable; "": a rule of ours does.
std::string text_of_flow_rule(const netlink::NftFlowRule& rule, const std::string& why);

}  // namespace ipvsproxier::ipset
