#pragma once

// Which virtual services are reached by way of others: clients within the cluster that ask for an
// address of external policy Local are sent to its Service's cluster IP (traffic.h). Connection
// tracking keeps the first address, and the endpoint that the cluster IP's virtual service chose.
// Pure; any thread.

#include <map>
#include <optional>
#include <vector>

#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

using InClusterWays = std::map<netlink::VirtualServiceKey, std::vector<netlink::VirtualServiceKey>>;

// Where such clients of the virtual service are sent; nullopt: nowhere else.
std::optional<netlink::VirtualServiceKey> in_cluster_way_of(const DesiredState& desired,
                                                            const netlink::VirtualServiceKey& key);

// The virtual services from which clients are sent to another one, by that one: those that the
// kernel has elements or rules for. Cost: all of them.
InClusterWays in_cluster_ways(const ActualState& actual);

}  // namespace ipvsproxier::plan
