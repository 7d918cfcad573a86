#pragma once

// `ipvsctl explain`: the way of a packet, computed from the kernel's current state. One thread.

#include "cmd/explain_options.h"
#include "netlink/result.h"
#include "proxier/inspect/listing.h"
#include "proxier/inspect/walk_text.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread; sends no packet. True if the packet reaches a
// server or socket, or leaves the node. Errors: the kernel's, the sink's, or `malformed` for an
// impossible flow.
netlink::Result<bool> run_explain(const ExplainOptions& options, const inspect::WalkNames& names,
                                  const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
