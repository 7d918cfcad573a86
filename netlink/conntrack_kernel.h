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

#include "netlink/conntrack_table.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

class KernelConntrackTable final : public ConntrackTable {
 public:
  // `missing` with the module's name if this kernel cannot list flows.
  static Result<std::unique_ptr<KernelConntrackTable>> open(const NlOptions& options = {});

  // Each flow once, in order. The kernel filters where it can; a filter that it refuses is not
  // tried again.
  Result<std::vector<UdpFlow>> list_udp(Family family,
                                        const std::optional<FlowEnd>& destination) override;
  std::vector<Status> remove(std::span<const UdpFlow> flows) override;

  // The flows to one destination, of the default zone, each once, in order.
  Result<std::vector<TrackedFlow>> list_to(Protocol protocol, const FlowEnd& destination);

  const NlCounters& counters() const { return channel_.counters(); }
  std::uint64_t requests() const override { return counters().requests(); }

 private:
  explicit KernelConntrackTable(NlChannel channel) : channel_(std::move(channel)) {}

  Status dump(const Bytes& request, Family family, const std::optional<FlowEnd>& destination,
              std::vector<UdpFlow>& flows);

  NlChannel channel_;
  bool filters_ = true;
};

}  // namespace ipvsproxier::netlink
