#pragma once

// KernelIpvsReader: the IPVS table of the network namespace in which it was opened, read over
// generic netlink. One thread. Opening it may load the ip_vs module (ipvs_channel.h).

#include <memory>
#include <utility>

#include "netlink/ipvs/ipvs_channel.h"
#include "netlink/ipvs/ipvs_reader.h"

namespace ipvsproxier::netlink {

class KernelIpvsReader final : public IpvsReader {
 public:
  // `missing` with the module's name if this kernel has no IPVS.
  static Result<std::unique_ptr<KernelIpvsReader>> open(const NlOptions& options = {});

  // Entries that the types cannot express (other protocols) are left out.
  Result<IpvsInfo> info() override;
  Status services(const std::function<Status(const ServiceReading&)>& each) override;
  Status servers(const VirtualServiceKey& service,
                 const std::function<Status(const ServerReading&)>& each) override;
  Result<IpvsTimeouts> timeouts() override;
  Result<std::vector<SyncDaemon>> daemons() override;

 private:
  KernelIpvsReader(IpvsChannel services, IpvsChannel servers)
      : services_(std::move(services)), servers_(std::move(servers)) {}

  // A socket runs one dump at a time, and servers are listed during the listing of services.
  IpvsChannel services_;
  IpvsChannel servers_;
};

}  // namespace ipvsproxier::netlink
