#pragma once

// KernelIpvsTable: the IPVS table of the network namespace in which it was opened, over generic
// netlink. Sync thread only. Nothing is changed by opening or destroying it; but opening may load
// the ip_vs module (ipvs_channel.h). Where the module was unloaded, listings, timeouts() and what
// is applied have it loaded again.

#include <memory>

#include "netlink/ipvs_channel.h"
#include "netlink/ipvs_table.h"

namespace ipvsproxier::netlink {

class KernelIpvsTable final : public IpvsTable {
 public:
  // `missing` with the module's name if this kernel has no IPVS.
  static Result<std::unique_ptr<KernelIpvsTable>> open(const NlOptions& options = {});

  // Adds that turn out to be edits (and the reverse) cost a second request, sent before the next
  // window of operations. The error of an unknown scheduler names it. After a timeout nothing more
  // is sent.
  std::vector<Status> apply(std::span<const IpvsOp> ops) override;
  // Entries that VirtualService cannot express (foreign protocols) are left out.
  Result<std::vector<VirtualService>> list_services() override;
  Result<ServicesPart> begin_services() override;
  Result<ServicesPart> next_services() override;
  Result<std::vector<ListedServer>> list_servers(const VirtualServiceKey& service) override;
  Result<IpvsTimeouts> timeouts() override;
  // Written only if a value that is not 0 differs.
  Status set_timeouts(const IpvsTimeouts& timeouts) override;

  NlCounters counters() const;
  std::uint64_t requests() const override { return counters().requests(); }

 private:
  // A dump keeps its socket busy, so that a listing in parts has one of its own.
  KernelIpvsTable(IpvsChannel opened, NlChannel parts)
      : channel_(std::move(opened.channel)), parts_(std::move(parts)), family_(opened.family) {}

  template <typename Ask>
  auto with_family(Ask ask) -> decltype(ask());

  NlChannel channel_;
  NlChannel parts_;
  std::uint16_t family_;
};

}  // namespace ipvsproxier::netlink
