#pragma once

// The sets and maps of our tables of nf_tables that are none of ours. Pure, any thread.

#include <cstddef>
#include <string>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::ctl {

// A set or map of our table that is none of ours, or has our name and another type.
struct ForeignSet {
  netlink::Family family = netlink::Family::ipv4;
  std::string name;  // as the kernel has it
  std::size_t elements = 0;

  friend bool operator==(const ForeignSet&, const ForeignSet&) = default;
};

// Whether a set is one of ours in a family, that of one Service's source ranges included.
bool is_our_set(const netlink::NftSetSpec& spec, netlink::Family family);

// The number of elements as nft(8) counts them: an interval is one.
std::size_t element_count(const ipset::FilterSet& set, netlink::Family family);

// Those of one table, by name. Its sets may be without elements.
std::vector<ForeignSet> foreign_sets_of(const ipset::FilterContents& contents,
                                        netlink::Family family);

}  // namespace ipvsproxier::ctl
