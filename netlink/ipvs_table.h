#pragma once

// IpvsTable: the kernel's IPVS table of one network namespace, as a seam. Used on the sync thread
// only. Implementations: KernelIpvsTable (ipvs_kernel.h), FakeIpvsTable (test/fakes).

#include <cstdint>
#include <span>
#include <vector>

#include "netlink/ipvs_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class IpvsTable {
 public:
  virtual ~IpvsTable() = default;

  // Applies all operations in order and answers one Status for each. Operations are idempotent:
  // an add of what exists becomes an edit, an edit of what is missing becomes an add (but an edit
  // of a real server to weight 0 succeeds then: it has drained), a delete of what is missing
  // succeeds. One failure does not stop those that follow. An unknown scheduler is `missing`.
  // `overrun` means that the outcome is unknown: list again.
  virtual std::vector<Status> apply(std::span<const IpvsOp> ops) = 0;

  // All virtual services of both families, firewall-mark services included; kernel order.
  virtual Result<std::vector<VirtualService>> list_services() = 0;

  // The same in parts: the listing begins, and goes on. Operations in between are allowed; virtual
  // services that they concern may be in it or not, and when some were removed, others be missed.
  struct ServicesPart {
    std::vector<VirtualService> services;
    bool last = false;
  };
  virtual Result<ServicesPart> begin_services() = 0;
  virtual Result<ServicesPart> next_services() = 0;

  // The real servers of one virtual service; `missing` if there is no such service; kernel order.
  virtual Result<std::vector<ListedServer>> list_servers(const VirtualServiceKey& service) = 0;

  virtual Result<IpvsTimeouts> timeouts() = 0;
  virtual Status set_timeouts(const IpvsTimeouts& timeouts) = 0;

  // Requests that were sent to the kernel so far; 0 where nobody counts. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
