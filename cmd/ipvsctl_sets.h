#pragma once

// `ipvsctl sets`: the IP sets that the rules consult. One thread.

#include "cmd/ipvsctl_options.h"
#include "netlink/result.h"
#include "proxier/inspect/listing.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread. The error is the kernel's or the sink's;
// `missing` for a name that no set has.
netlink::Status run_sets(const SetsOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
