#pragma once

// `ipvsctl list`: what the kernel alone can answer. One thread.

#include "cmd/ipvsctl_options.h"
#include "netlink/result.h"
#include "proxier/inspect/listing.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread. The error is the kernel's or the sink's.
netlink::Status run_list(const ListOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
