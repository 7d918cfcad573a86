#pragma once

// One ICMP or ICMPv6 echo request. Needs CAP_NET_RAW.

#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::test {

// Success when the address itself answered. An ICMP error that came instead is an error with its
// errno (ECONNREFUSED: port unreachable), no answer in time is `timeout`. Sent from the network
// namespace of the calling thread.
netlink::Status ping(const netlink::IpAddress& address, int timeout_ms = 5000);

}  // namespace ipvsproxier::test
