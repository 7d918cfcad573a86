#pragma once

// `ipvsctl sets`: the IP sets that the rules use. One thread.

#include "cmd/ipvsctl/ipvsctl_options.h"
#include "cmd/ipvsctl/listing/listing.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

// Reads the network namespace of the calling thread. Returns the error of the kernel or the sink;
// `missing` for a name without a set.
netlink::Status run_sets(const SetsOptions& options, const TextSink& sink);

}  // namespace ipvsproxier::ctl
