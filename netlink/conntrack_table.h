#pragma once

// ConntrackTable: the UDP flows that the kernel tracks in one network namespace, as a seam. Sync
// thread only. Implementations: KernelConntrackTable (conntrack_kernel.h), FakeConntrackTable
// (test/fakes).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "netlink/conntrack_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class ConntrackTable {
 public:
  virtual ~ConntrackTable() = default;

  // The UDP flows of the family in the default zone; of one original destination only, if given.
  // A kernel without connection tracking is `missing`.
  virtual Result<std::vector<UdpFlow>> list_udp(Family family,
                                                const std::optional<FlowEnd>& destination) = 0;

  // Removes exactly these flows (a new one of the same addresses and ports stays); one Status for
  // each. A flow that is gone already succeeds.
  virtual std::vector<Status> remove(std::span<const UdpFlow> flows) = 0;

  // Requests that were sent to the kernel so far; 0 where nobody counts. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
