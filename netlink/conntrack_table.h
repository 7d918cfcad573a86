#pragma once

// ConntrackTable: the UDP flows that the kernel tracks in one network namespace, as a seam. Sync
// thread only. Implementations: KernelConntrackTable (conntrack_kernel.h), FakeConntrackTable
// (test/fakes).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "netlink/conntrack_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Which UDP flows of the default zone are asked for.
struct FlowQuery {
  Family family = Family::ipv4;
  std::set<FlowEnd> destinations;                              // that they were sent to; empty: any
  std::function<bool(const UdpFlow&)> wanted;                  // of those; empty: all
  std::size_t most = std::numeric_limits<std::size_t>::max();  // whichever come first

  bool matches(const UdpFlow& flow) const {
    return flow.destination.address.family() == family &&
           (destinations.empty() || destinations.contains(flow.destination)) &&
           (!wanted || wanted(flow));
  }
};

class ConntrackTable {
 public:
  virtual ~ConntrackTable() = default;

  // These flows, each once, in order, in memory that grows with them and not with the table. A
  // kernel that cannot list flows is `missing` or `unsupported`, one that does not let us `denied`.
  virtual Result<std::vector<UdpFlow>> list_udp(const FlowQuery& query) = 0;

  // Removes exactly these flows (a new one of the same addresses and ports stays); one Status for
  // each. A flow that is gone already succeeds.
  virtual std::vector<Status> remove(std::span<const UdpFlow> flows) = 0;

  // Requests that were sent to the kernel so far; 0 where nobody counts. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
