#pragma once

// KernelConntrackTable: the tracked flows of the network namespace in which it was opened, over
// nfnetlink. Sync thread only. Opening and destroying change nothing; but opening makes the kernel
// load nf_conntrack_netlink where it may (net/netfilter/nfnetlink.c asks for the subsystem's
// module).
//
// The kernel makes a flow's id from where the flow lies in memory and from its addresses and ports
// (nf_ct_get_id): a successor of the same addresses and ports has the same id if it happens to take
// the very place of its predecessor.

#include <memory>
#include <vector>

#include "netlink/conntrack_listing.h"
#include "netlink/conntrack_table.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

class KernelConntrackTable final : public ConntrackTable {
 public:
  // `missing` with the module's name if this kernel cannot list flows.
  static Result<std::unique_ptr<KernelConntrackTable>> open(const NlOptions& options = {});

  Result<std::vector<UdpFlow>> list_udp(const FlowQuery& query) override;
  std::vector<Status> remove(std::span<const UdpFlow> flows) override;

  // The flows to one destination, of the default zone, each once, in order.
  Result<std::vector<TrackedFlow>> list_to(Protocol protocol, const FlowEnd& destination);

  const NlCounters& counters() const { return channel_.counters(); }
  std::uint64_t requests() const override { return counters().requests(); }

 private:
  explicit KernelConntrackTable(NlChannel channel) : channel_(std::move(channel)) {}

  NlChannel channel_;
  UdpFlowListing listing_;
};

}  // namespace ipvsproxier::netlink
