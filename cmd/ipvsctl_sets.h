#pragma once

// `ipvsctl sets`: the IP sets that the rules use. One thread.

#include "cmd/ipvsctl_options.h"
#include "netlink/result.h"
#include "proxier/inspect/listing.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread. Returns the error of the kernel or the sink;
// `missing` for a name without a set.
netlink::Status run_sets(const SetsOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
