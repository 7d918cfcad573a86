#pragma once

// KernelIpvsTable: the IPVS table of the network namespace in which it was opened, over generic
// netlink. Sync thread only. Opening and destroying change nothing in the table, but opening may
// load the ip_vs module (ipvs_channel.h). A table that could not be opened opens itself when it is
// used (NlChannel); until then all operations answer the error. If the module was unloaded since,
// operations make the kernel load it again.

#include <memory>

#include "netlink/ipvs/ipvs_channel.h"
#include "netlink/ipvs/ipvs_table.h"

namespace ipvsproxier::netlink {

class KernelIpvsTable : public IpvsTable {
 public:
  // `missing` with the module's name if this kernel has no IPVS.
  static Result<std::unique_ptr<KernelIpvsTable>> open(const NlOptions& options = {});
  explicit KernelIpvsTable(const NlOpening& opening, const NlOptions& options = {});
  Status ready() { return channel_.ready(); }

  // An add that turns out to be an edit (or the reverse) costs a second request, sent before the
  // next window of operations. The error of an unknown scheduler names the scheduler. After a
  // timeout nothing more is sent.
  std::vector<Status> apply(std::span<const IpvsOp> ops) override;
  // Entries that VirtualService cannot express (other protocols) are left out.
  Result<std::vector<VirtualService>> list_services() override;
  Result<ServicesPart> begin_services() override;
  Result<ServicesPart> next_services() override;
  Result<std::vector<ListedServer>> list_servers(const VirtualServiceKey& service) override;
  Result<IpvsTraffic> traffic(const VirtualServiceKey& service) override;
  Result<bool> has_scheduler(ShortName scheduler) override;
  Result<IpvsTimeouts> timeouts() override;
  // Written only if a requested value other than 0 differs from the kernel's.
  Status set_timeouts(const IpvsTimeouts& timeouts) override;

  NlCounters counters() const;
  std::uint64_t requests() const override { return counters().requests(); }

 private:
  Status find_family(NlChannel& channel);
  template <typename Ask>
  auto with_family(Ask ask) -> decltype(ask());

  std::uint16_t family_ = 0;
  NlChannel channel_;
  // A dump keeps its socket busy: the listing in parts has a socket of its own.
  NlChannel parts_;
};

}  // namespace ipvsproxier::netlink
