#pragma once

// Our rules of nf_tables in the words of nft(8). Pure; any thread.

#include <string>

#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// "ip daddr @vips jump to_vip". The text of parts that only iptables has is that of iptables-save.
std::string to_nft_string(const Rule& rule, netlink::Family family);

// The chains and rules of a table of ours, as `nft -f` takes them inside of "table ip kube-ipvs".
std::string to_nft_string(const TableRules& table);

}  // namespace ipvsproxier::ipset
