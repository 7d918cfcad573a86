#pragma once

// `ipvsctl rules`: our chains of the packet filter. One thread.

#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/rules/rule_listing.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

// Reads the network namespace of the calling thread; loads no module and creates no table. Returns
// the error of the kernel or the sink; `missing` for a named chain that does not exist.
netlink::Status run_rules(const RuleStyle& style, const TextSink& sink);

}  // namespace ipvsproxier::ctl
