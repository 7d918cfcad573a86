#pragma once

// `ipvsctl rules`: our chains of the packet filter. One thread.

#include "netlink/result.h"
#include "proxier/inspect/listing.h"
#include "proxier/inspect/rule_listing.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread; loads no module and creates no table. Returns
// the error of the kernel or the sink; `missing` for a named chain that does not exist.
netlink::Status run_rules(const inspect::RuleStyle& style, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
