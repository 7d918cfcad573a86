#pragma once

// The kernel's own trace of TCP packets of IPv4 through the packet filter of a network namespace:
// each rule that matched, in order. One thread. Failures throw std::runtime_error or
// std::system_error, also if the kernel lost a part of the trace.
//
// nf_tables tells each rule in a message to the group NFNLGRP_NFTRACE
// (net/netfilter/nf_tables_trace.c); legacy iptables writes a line into the kernel's log
// (trace_packet() of net/ipv4/netfilter/ip_tables.c). Both come before the packet leaves the hook,
// so that nothing is to be waited for.

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/unique_fd.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::bench {

enum class TracedFilter : std::uint8_t { iptables, nftables };

// Traces from its construction to its destruction. One at a time in a kernel.
class PacketTrace {
 public:
  PacketTrace(const test::Netns& netns, TracedFilter filter);
  PacketTrace(const PacketTrace&) = delete;
  PacketTrace& operator=(const PacketTrace&) = delete;
  ~PacketTrace();

  // The events since the last call, in order and in one form for both filters:
  //   TRACE: TABLE:CHAIN:KIND:RULE[:VERDICT] NAME=VALUE...
  // RULE is the number of the rule in its chain (iptables) or its handle (nf_tables); a packet
  // begins with events of the table `raw` or `traffic_trace`.
  std::vector<std::string> take();

 private:
  std::vector<std::string> take_messages();
  std::vector<std::string> take_lines();

  const test::Netns& netns_;
  const TracedFilter filter_;
  netlink::UniqueFd source_;
};

}  // namespace ipvsproxier::bench
