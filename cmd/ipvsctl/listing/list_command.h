#pragma once

// `ipvsctl list`: the IPVS table, connections and timeouts of the kernel. One thread.

#include "cmd/ipvsctl/ipvsctl_options.h"
#include "cmd/ipvsctl/listing/listing.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

// Reads the network namespace of the calling thread. Returns the error of the kernel or the sink.
netlink::Status run_list(const ListOptions& options, const TextSink& sink);

}  // namespace ipvsproxier::ctl
