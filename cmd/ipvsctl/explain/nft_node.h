#pragma once

// Reads what nf_tables has in its hooks, for one explanation (node_reading.h). One thread.

#include "cmd/ipvsctl/explain/packet.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_codec.h"

namespace ipvsproxier::ctl {

// Whose rules are read, for packets of which family; `ip_sets` for those of iptables-nft.
struct NftReader {
  ipset::FilterTable& nftables;
  netlink::Family family;
  ipset::SetResolver& ip_sets;
};

// Adds our table of the family with its sets. A set that is not as we write sets is left out: rules
// that use it cannot be judged.
netlink::Status read_our_nft_table(const NftReader& reader, NodeReading& node);

// Adds the other tables whose chains see packets of the family, with the places of these chains.
netlink::Status read_other_nft_tables(const NftReader& reader, NodeReading& node);

}  // namespace ipvsproxier::ctl
