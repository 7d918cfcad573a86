#pragma once

// Looks a key up in a set or map of nf_tables as the kernel does. Pure; any thread.

#include "cmd/ipvsctl/explain/nft_field.h"
#include "cmd/ipvsctl/explain/rule_judge.h"
#include "ipset/nftables/filter_table.h"

namespace ipvsproxier::ctl {

struct NftFound {
  Answer answer = Answer::no;  // `unknown`: it depends on bits of the key that are not known
  const netlink::NftElement* element = nullptr;  // with Answer::yes
};

// `set` must outlive the result.
NftFound find_in(const ipset::FilterSet& set, const NftField& key);

}  // namespace ipvsproxier::ctl
