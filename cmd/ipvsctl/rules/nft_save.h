#pragma once

// Prints our tables of nf_tables as `nft -f` takes them. Pure, any thread.

#include <string>
#include <vector>

#include "cmd/ipvsctl/rules/rule_review.h"

namespace ipvsproxier::ctl {

// Where the kernel calls a chain, in the words of nft(8): "type filter hook input priority -5".
std::string base_text(const netlink::NftBase& base);

// Without a chosen chain the tables as a whole: `nft -f` puts each of them, sets and elements
// included, in the place of the one that is there, in one step. With one, that chain alone.
//
// What is of others in our tables becomes a comment, as do rules that are not of our vocabulary or
// name what is of others.
std::string nft_save_text(const RuleReading& reading, const std::vector<ReviewedChain>& chains,
                          const RuleChoice& choice);

}  // namespace ipvsproxier::ctl
