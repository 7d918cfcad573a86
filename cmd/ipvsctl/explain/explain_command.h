#pragma once

// `ipvsctl explain`: the way of a packet, computed from the kernel's current state. One thread.

#include "cmd/ipvsctl/explain/explain_options.h"
#include "cmd/ipvsctl/explain/walk_text.h"
#include "cmd/ipvsctl/listing/listing.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

// Reads the network namespace of the calling thread; sends no packet. True if the packet reaches a
// server or socket, or leaves the node. Errors: the kernel's, the sink's, or `malformed` for an
// impossible flow.
netlink::Result<bool> run_explain(const ExplainOptions& options, const WalkNames& names,
                                  const TextSink& sink);

}  // namespace ipvsproxier::ctl
