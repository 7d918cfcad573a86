#pragma once

// What the cluster calls what is in the kernel, as the daemon knows it, page by page. Pure; any
// thread. ClusterNames (cluster_names.h) reads it.

#include <cstddef>
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
// A virtual service is an address, a port, a protocol, the name of the Service's port and a facet;
// an endpoint an address, a pod, a node, a zone, and whether it is ready, serves and terminates.
// Texts are "" where nothing is known; a Service without a health check node port has no member for
// it. `continue` is the next query's `after`, "" on the last page.
// A page ends with the first slice that takes it beyond `bytes`, or Service if that has none. The
// next one goes on with the same Service if that has more slices, without its virtual services.
std::string name_page(const model::ClusterState& cluster, const plan::Planner& planner,
                      const ServiceQuery& query, std::size_t bytes);

}  // namespace ipvsproxier::inspect
