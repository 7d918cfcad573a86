#pragma once

// Expressions of rules, and data of elements and rules, as attributes. Pure; any thread. Used by
// nftables_codec.h alone.
//
//   EXPRESSIONS { LIST_ELEM { NAME "payload" DATA { DREG BASE OFFSET LEN } } ... }
//   DATA { VALUE bytes }   or   DATA { VERDICT { CODE CHAIN } }
//
// Numbers are in network order. Sources: net/netfilter/nft_*.c, nf_tables_api.c (6.1).

#include <cstdint>
#include <span>
#include <vector>

#include "netlink/nftables/nftables_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// A nest of this type with the data in it.
void put_nft_data(MessageWriter& out, std::uint16_t type, const NftData& data);
// `nest` is what stands in such a nest.
Result<NftData> decode_nft_data(ByteView nest);

// Appends the nest EXPRESSIONS of a rule.
void put_nft_expressions(MessageWriter& out, const std::vector<NftExpression>& expressions);
// `nest` is what stands in that nest. `malformed` for bytes that break the policy; an expression of
// which we do not know everything is an NftOtherExpression.
Result<std::vector<NftExpression>> decode_nft_expressions(ByteView nest);

}  // namespace ipvsproxier::netlink
