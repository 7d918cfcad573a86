#pragma once

// ClusterState: the objects that concern this node, as last read. Owned by one thread at a time.

#include <map>
#include <optional>

#include "proxier/model/endpoint.h"

namespace ipvsproxier::model {

struct ClusterState {
  std::map<api::NamespacedName, api::Service> services;
  std::map<api::NamespacedName, SlicesByName> slices;  // by the Service that they belong to
  std::optional<api::Node> node;                       // this node's
  // Everything could be read: what is not here does not exist.
  bool complete = true;

  // Adds the object or replaces the one of its kind and name. EndpointSlices without a Service name
  // belong to nobody and are dropped.
  void put(api::Object object);
};

}  // namespace ipvsproxier::model
