#pragma once

// IpvsReader: reads the IPVS table of one network namespace for display: with counters, as a
// stream. One thread. Changes nothing. Implementation: KernelIpvsReader (ipvs_reader_kernel.h).

#include <functional>
#include <vector>

#include "netlink/ipvs/ipvs_readings.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class IpvsReader {
 public:
  virtual ~IpvsReader() = default;

  virtual Result<IpvsInfo> info() = 0;

  // Calls `each` for every virtual service in the kernel's order while the listing runs; memory
  // does not grow with the listing. `each` may call servers(). The first failure of `each` ends the
  // listing and is the result. The kernel does not mark changes during the listing: an entry may be
  // missed or come twice.
  virtual Status services(const std::function<Status(const ServiceReading&)>& each) = 0;

  // The same for the real servers of one virtual service; no calls if there is no such service.
  virtual Status servers(const VirtualServiceKey& service,
                         const std::function<Status(const ServerReading&)>& each) = 0;

  virtual Result<IpvsTimeouts> timeouts() = 0;
  virtual Result<std::vector<SyncDaemon>> daemons() = 0;
};

}  // namespace ipvsproxier::netlink
