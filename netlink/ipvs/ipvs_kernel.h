#pragma once

// KernelIpvsTable: the IPVS table of the network namespace in which it was opened, over generic
// netlink. Sync thread only. Opening and destroying change nothing in the table, but opening may
// load the ip_vs module (ipvs_channel.h). If the module was unloaded since, listings, timeouts()
// and apply() make the kernel load it again.

#include <memory>

#include "netlink/ipvs/ipvs_channel.h"
#include "netlink/ipvs/ipvs_table.h"

namespace ipvsproxier::netlink {

class KernelIpvsTable final : public IpvsTable {
 public:
  // `missing` with the module's name if this kernel has no IPVS.
  static Result<std::unique_ptr<KernelIpvsTable>> open(const NlOptions& options = {});

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
  // A dump keeps its socket busy: the listing in parts has a socket of its own.
  KernelIpvsTable(IpvsChannel opened, NlChannel parts)
      : channel_(std::move(opened.channel)), parts_(std::move(parts)), family_(opened.family) {}

  template <typename Ask>
  auto with_family(Ask ask) -> decltype(ask());

  NlChannel channel_;
  NlChannel parts_;
  std::uint16_t family_;
};

}  // namespace ipvsproxier::netlink
