#pragma once

// The cluster's objects as the daemon holds them, page by page: what ipvsctl plans with to say what
// should be in the kernel. Pure; any thread.

#include <cstddef>
#include <string>

#include "proxier/api/object_kind.h"
#include "proxier/inspect/service_query.h"
#include "proxier/model/cluster_state.h"

namespace ipvsproxier::inspect {

struct ObjectQuery {
  api::ObjectKind kind = api::ObjectKind::service;
  // EndpointSlices are those of the Services; a Node has none.
  ServiceQuery services;
};

// A list as an API server gives it: {"apiVersion":"v1","kind":"List","metadata":{"continue":...},
// "items":[...]}, where `continue` is the next query's `after` and is missing
// on the last page. A page ends with the first object that takes it beyond `bytes`.
std::string object_page(const model::ClusterState& cluster, const ObjectQuery& query,
                        std::size_t bytes);

}  // namespace ipvsproxier::inspect
