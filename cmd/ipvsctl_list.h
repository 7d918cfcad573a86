#pragma once

// `ipvsctl list`: the IPVS table, connections and timeouts of the kernel. One thread.

#include "cmd/ipvsctl_options.h"
#include "netlink/result.h"
#include "proxier/inspect/listing.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread. Returns the error of the kernel or the sink.
netlink::Status run_list(const ListOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
