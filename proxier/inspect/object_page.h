#pragma once

// The cluster's objects as the daemon holds them, in pages; ipvsctl uses them to compute the
// desired kernel state. Pure; any thread.

#include <cstddef>
#include <string>

#include "proxier/api/names.h"
#include "proxier/inspect/service_query.h"
#include "proxier/model/cluster_state.h"

namespace ipvsproxier::inspect {

struct ObjectQuery {
  api::ObjectKind kind = api::ObjectKind::service;
  // Selects EndpointSlices by their Services; does not apply to Nodes.
  ServiceQuery services;
};

// A list in the API server's form: {"apiVersion":"v1","kind":"List","metadata":{"continue":...},
// "items":[...]}. `continue` is the `after` of the next query and absent on the last page. A page
// ends with the first object that makes it larger than `bytes`.
std::string object_page(const model::ClusterState& cluster, const ObjectQuery& query,
                        std::size_t bytes);

}  // namespace ipvsproxier::inspect
