#pragma once

// Operations on the IPVS table as windows of requests, and what the answers make of them: the part
// of KernelIpvsTable::apply() that needs no socket. Any thread.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "netlink/ipvs_table.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

// Sends requests, in order, and answers one Status for each: NlChannel::transact().
using Transact = std::function<std::vector<Status>(std::span<const Bytes>)>;

// One Status for each operation, as IpvsTable::apply() has it. `family` is the kernel's number of
// the IPVS family. After a timeout nothing more is sent.
std::vector<Status> apply_ipvs_ops(std::uint16_t family, std::span<const IpvsOp> ops,
                                   const Transact& transact);

}  // namespace ipvsproxier::netlink
