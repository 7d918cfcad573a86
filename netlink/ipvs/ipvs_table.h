#pragma once

// IpvsTable: interface to the kernel's IPVS table of one network namespace. Sync thread only.
// Implementations: KernelIpvsTable (ipvs_kernel.h), FakeIpvsTable (test/fakes).

#include <cstdint>
#include <span>
#include <vector>

#include "netlink/ipvs/ipvs_readings.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class IpvsTable {
 public:
  virtual ~IpvsTable() = default;

  // Applies all operations in order and returns one Status for each. Operations are idempotent:
  // adding an existing entry edits it, editing a missing entry adds it (except a real server that
  // is set to weight 0: it has drained, and the edit succeeds), deleting a missing entry succeeds.
  // The exception is a virtual service whose addition does not adopt: an existing one is `already`,
  // and what the same call asks for it later is not done and `already`, too, so that it stays as
  // it is. A failure does not stop the operations that follow. An unknown scheduler is `missing`.
  // `overrun` means that the outcome is unknown: list again.
  virtual std::vector<Status> apply(std::span<const IpvsOp> ops) = 0;

  // All virtual services of both families, firewall-mark services included; kernel order.
  virtual Result<std::vector<VirtualService>> list_services() = 0;

  // The same listing in parts. Operations between the parts are allowed; virtual services that they
  // concern may or may not be listed, and after a removal other services may be missed.
  struct ServicesPart {
    std::vector<VirtualService> services;
    bool last = false;
  };
  virtual Result<ServicesPart> begin_services() = 0;
  virtual Result<ServicesPart> next_services() = 0;

  // The real servers of one virtual service; `missing` if there is no such service; kernel order.
  virtual Result<std::vector<ListedServer>> list_servers(const VirtualServiceKey& service) = 0;

  // The counters of one virtual service; `missing` if there is no such service. The kernel sums
  // them up every two seconds.
  virtual Result<IpvsTraffic> traffic(const VirtualServiceKey& service) = 0;

  // Whether the kernel has the scheduler, or finds a module with it. Changes nothing else.
  virtual Result<bool> has_scheduler(ShortName scheduler) = 0;

  virtual Result<IpvsTimeouts> timeouts() = 0;
  virtual Status set_timeouts(const IpvsTimeouts& timeouts) = 0;

  // Number of requests sent to the kernel so far; 0 if not counted. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
