#pragma once

// Looks a key up in a set or map of nf_tables as the kernel does. Pure; any thread.

#include <vector>

#include "ipset/judge/answer.h"
#include "ipset/judge/nft_field.h"
#include "ipset/nftables/filter_table.h"

namespace ipvsproxier::ipset {

struct NftFound {
  Answer answer = Answer::no;  // `unknown`: it depends on bits of the key that are not known
  const netlink::NftElement* element = nullptr;  // with Answer::yes
};

// `set` must outlive the result.
NftFound find_in(const FilterSet& set, const NftField& key);

// Where find_in() does not know: each element that may have the key.
std::vector<const netlink::NftElement*> possible_in(const FilterSet& set, const NftField& key);

}  // namespace ipvsproxier::ipset
