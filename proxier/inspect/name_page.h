#pragma once

// The cluster's names of entries in the kernel, as the daemon knows them, in pages. Pure; any
// thread. ClusterNames (cluster_names.h) reads the pages.

#include <cstddef>
#include <set>
#include <string>

#include "proxier/inspect/service_query.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::inspect {

// The Services that have virtual services, one object each:
//
//   {"services":[{"namespace":"shop","name":"web","healthCheckNodePort":32100,
//                 "virtual":[["10.96.0.9",80,"TCP","http","cluster IP"],...],
//                 "slices":[{"ports":[8080],
//                            "endpoints":[["10.1.0.2","web-1","node-2","zone-b",true,true,false],
//                                         ...]},...]},...],
//    "continue":"shop/web"}
//
// The last page of all Services has `"foreign":[["192.0.2.10",80,"TCP"],...]` before `continue`:
// the virtual services of other programs, of which at most kMostForeign are named.
//
// A virtual service is [address, port, protocol, name of the Service's port, facet]; an endpoint is
// [address, pod, node, zone, ready, serving, terminating]. Unknown texts are ""; the member
// healthCheckNodePort is absent without such a port. `continue` is the `after` of the next query,
// "" on the last page.
// A page ends with the first slice (or, without slices, Service) that makes it larger than `bytes`.
// The next page continues the same Service if it has more slices, without its virtual services.
std::string name_page(const model::ClusterState& cluster, const plan::Planner& planner,
                      const ServiceQuery& query, std::size_t bytes,
                      const std::set<netlink::VirtualServiceKey>& foreign = {});

inline constexpr std::size_t kMostForeign = 16'384;

}  // namespace ipvsproxier::inspect
