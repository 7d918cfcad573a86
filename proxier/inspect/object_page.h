#pragma once

// The cluster's objects as the daemon holds them, page by page: what ipvsctl plans with to say what
// should be in the kernel. Pure; any thread.

#include <cstddef>
#include <optional>
#include <string>

#include "proxier/api/object_kind.h"
#include "proxier/model/cluster_state.h"

namespace ipvsproxier::inspect {

struct ObjectQuery {
  api::ObjectKind kind = api::ObjectKind::service;
  // Those after this one: of EndpointSlices after all slices of this Service.
  std::optional<api::NamespacedName> after;
  // Of this namespace, of this Service alone; a Node has neither.
  std::optional<std::string> ns;
  std::optional<api::NamespacedName> service;
};

// A list as an API server gives it: {"apiVersion":"v1","kind":"List","metadata":{"continue":...},
// "items":[...]}, where `continue` is the next query's `after` as "namespace/name" and is missing
// on the last page. A page ends with the first Service that takes it beyond `bytes`.
std::string object_page(const model::ClusterState& cluster, const ObjectQuery& query,
                        std::size_t bytes);

}  // namespace ipvsproxier::inspect
