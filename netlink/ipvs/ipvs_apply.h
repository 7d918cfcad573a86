#pragma once

// Turns operations on the IPVS table into windows of requests and interprets the answers: the part
// of KernelIpvsTable::apply() that needs no socket. Any thread.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "netlink/ipvs/ipvs_table.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

// Sends the requests in order and returns one Status for each, as NlChannel::transact() does.
using Transact = std::function<std::vector<Status>(std::span<const Bytes>)>;

// Implements IpvsTable::apply(): one Status for each operation. `family` is the id that the kernel
// gave to the IPVS family. After a timeout nothing more is sent.
std::vector<Status> apply_ipvs_ops(std::uint16_t family, std::span<const IpvsOp> ops,
                                   const Transact& transact);

}  // namespace ipvsproxier::netlink
