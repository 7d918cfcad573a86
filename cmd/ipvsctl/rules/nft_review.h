#pragma once

// Compares our tables of nf_tables with the catalogue (ipset/rules/nft_catalog.h), also the chains
// of single Services, one for each that has source ranges. Pure, any thread.

#include <vector>

#include "cmd/ipvsctl/listing/foreign_sets.h"
#include "cmd/ipvsctl/rules/rule_review.h"

namespace ipvsproxier::ctl {

// The chains of our table of a family, in the order of review_rules(); none if there is no table.
// Where a table of our name has nothing of ours, all its chains are of others and none is missing.
std::vector<ReviewedChain> review_nft(const RuleReading& reading, netlink::Family family,
                                      const RuleChoice& choice);

// Sets of others in our tables: IPv4 first, by name.
std::vector<ForeignSet> foreign_sets(const RuleReading& reading);

}  // namespace ipvsproxier::ctl
