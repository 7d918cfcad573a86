#pragma once

// Makes, repairs and removes a loop (loop_types.h) over an rtnetlink channel: the part of
// KernelLinkTable that is about loops. Sync thread only.

#include "netlink/links/loop_types.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

// As LinkTable::ensure_loop() and remove_loop().
Result<LoopReport> ensure_loop(NlChannel& channel, const LoopSpec& spec, bool dry);
Result<bool> remove_loop(NlChannel& channel, const LoopSpec& spec);

}  // namespace ipvsproxier::netlink
