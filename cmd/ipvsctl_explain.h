#pragma once

// `ipvsctl explain`: the way of a packet, from what the kernel holds now. One thread.

#include "cmd/explain_options.h"
#include "netlink/result.h"
#include "proxier/inspect/listing.h"
#include "proxier/inspect/walk_text.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread; sends nothing. Whether the packet gets to a
// server or socket, or leaves the node; else the kernel's error, the sink's, or `malformed` for a
// flow that cannot be.
netlink::Result<bool> run_explain(const ExplainOptions& options, const inspect::WalkNames& names,
                                  const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
