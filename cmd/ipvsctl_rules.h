#pragma once

// `ipvsctl rules`: our chains of the packet filter. One thread.

#include "netlink/result.h"
#include "proxier/inspect/listing.h"
#include "proxier/inspect/rule_listing.h"

namespace ipvsproxier::cmd {

// Reads the network namespace of the calling thread; loads no module and makes no table. The error
// is the kernel's or the sink's; `missing` for a chain that is named and not there.
netlink::Status run_rules(const inspect::RuleStyle& style, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
