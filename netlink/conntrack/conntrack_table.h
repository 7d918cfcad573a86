#pragma once

// ConntrackTable: interface to the flows that the kernel tracks in one network namespace. Sync
// thread only. Implementations: KernelConntrackTable (conntrack_kernel.h), FakeConntrackTable
// (test/fakes).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "netlink/conntrack/conntrack_types.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Selects flows of the default zone.
struct FlowQuery {
  Family family = Family::ipv4;
  Protocol protocol = Protocol::udp;
  std::set<FlowEnd> destinations;                              // original destinations; empty: any
  std::function<bool(const Flow&)> wanted;                     // a further condition; empty: none
  std::size_t most = std::numeric_limits<std::size_t>::max();  // stops after so many flows

  bool matches(const Flow& flow) const {
    return flow.destination.address.family() == family && flow.protocol == protocol &&
           (destinations.empty() || destinations.contains(flow.destination)) &&
           (!wanted || wanted(flow));
  }
};

class ConntrackTable {
 public:
  virtual ~ConntrackTable() = default;

  // Lists the matching flows, sorted, without duplicates. Memory grows with the result, not with
  // the kernel's table. `missing` or `unsupported`: the kernel cannot list flows; `denied`: a
  // privilege is missing.
  virtual Result<std::vector<Flow>> list(const FlowQuery& query) = 0;

  // The number of flows of all families, protocols and zones. Cheap.
  virtual Result<std::size_t> count() = 0;

  struct FlowsPart {
    std::vector<Flow> flows;
    bool last = false;
  };
  // Lists the flows of these protocols in parts: begin_list() returns the first one, next_list()
  // each further one until the last. Between them the caller may do anything else with this table;
  // beginning another such listing ends an unfinished one. A flow may be listed twice. The kernel
  // filters by the family alone, as a filter would have it search the whole table for one part.
  virtual Result<FlowsPart> begin_list(Family family, const std::set<Protocol>& protocols) = 0;
  virtual Result<FlowsPart> next_list() = 0;

  // Removes exactly these flows (a later flow with the same addresses and ports stays); one Status
  // for each. Removing a flow that is already gone succeeds.
  virtual std::vector<Status> remove(std::span<const Flow> flows) = 0;

  // Number of requests sent to the kernel so far; 0 if not counted. Cheap.
  virtual std::uint64_t requests() const { return 0; }
};

}  // namespace ipvsproxier::netlink
