#pragma once

// Our rules of nf_tables in the words of nft(8). Pure; any thread.

#include <string>

#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// "ip daddr @vips jump to_vip". The text of parts that only iptables has is that of iptables-save.
// Rules with different expressions have different texts. Names are as they are, control characters
// included.
std::string to_nft_string(const Rule& rule, netlink::Family family);

}  // namespace ipvsproxier::ipset
