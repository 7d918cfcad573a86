#pragma once

// KernelConntrackTable: the tracked flows of the network namespace in which it was opened, over
// nfnetlink. Sync thread only. Opening and destroying change nothing; but opening makes the kernel
// load nf_conntrack_netlink where it may (net/netfilter/nfnetlink.c asks for the subsystem's
// module). A table that could not be opened opens itself when it is used (NlChannel).
//
// The kernel computes a flow's id from the memory address of the flow and from its addresses and
// ports (nf_ct_get_id). A later flow with the same addresses and ports has the same id only if the
// kernel happens to allocate it at the same memory address.

#include <memory>
#include <set>
#include <vector>

#include "netlink/conntrack/conntrack_listing.h"
#include "netlink/conntrack/conntrack_table.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

class KernelConntrackTable final : public ConntrackTable {
 public:
  // `missing` with the module's name if this kernel cannot list flows.
  static Result<std::unique_ptr<KernelConntrackTable>> open(const NlOptions& options = {});
  explicit KernelConntrackTable(const NlOpening& opening, const NlOptions& options = {});
  Status ready();

  Result<std::vector<Flow>> list(const FlowQuery& query) override;
  Result<std::size_t> count() override;
  Result<FlowsPart> begin_list(Family family, const std::set<Protocol>& protocols) override;
  Result<FlowsPart> next_list() override;
  std::vector<Status> remove(std::span<const Flow> flows) override;

  // The flows of the default zone to one destination, sorted, without duplicates.
  Result<std::vector<TrackedFlow>> list_to(Protocol protocol, const FlowEnd& destination);

  const NlCounters& counters() const { return channel_.counters(); }
  std::uint64_t requests() const override {
    return counters().requests() + parts_.counters().requests();
  }

 private:
  NlChannel channel_;
  NlChannel parts_;  // of begin_list()
  std::set<Protocol> protocols_;
  FlowListing listing_;
};

}  // namespace ipvsproxier::netlink
