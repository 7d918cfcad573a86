#pragma once

// Transactions of nf_tables: which operations are sent together, and what is sent again when the
// kernel refuses. This is the part that needs no socket; the packet filter of ipset/nftables gives
// it one. Pure; any thread.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "netlink/nftables/nftables_types.h"
#include "netlink/nl_answers.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Sends messages as one transaction (NlChannel::transact_batch()).
using SendNftBatch = std::function<BatchOutcome(std::span<const Bytes>)>;

// Bytes of a transaction, unless one unit is larger.
inline constexpr std::size_t kNftTransactionBytes = 1 << 20;

// Applies the units in order, many in a transaction, and gives one Status for each. A unit that
// fails changes nothing, and does not stop the others:
//
// - units whose messages the kernel names are left out, and the others are sent again. Of the units
//   left out, the first was refused for what it is, the others perhaps for what came before them:
//   they are tried again together behind the others. Whoever is refused again without being the
//   first is tried alone, but for what exists already or is missing: that is then believed;
// - a transaction that is refused as a whole without a name is halved until the culprit is alone.
//
// So units of one call must not need one another. After a timeout nothing more is sent (result.h,
// timed_out()); after kMostNftFailures refused transactions the rest is `busy`. `overrun` and
// `timeout`: whether the unit was applied is unknown.
std::vector<Status> apply_nft_units(std::span<const NftUnit> units, const SendNftBatch& send);

inline constexpr std::size_t kMostNftFailures = 1000;

}  // namespace ipvsproxier::netlink
