#pragma once

// Changes: what happened to the cluster's objects, as the newest state of each object by name. Goes
// from a source of objects (watch, manifests) to ClusterState::take(). The last state wins, except
// that an EndpointSlice keeps its oldest trigger time. Values; one thread at a time.

#include <map>
#include <optional>
#include <string>

#include "proxier/api/objects.h"

namespace ipvsproxier::model {

struct Changes {
  template <typename T>
  using ByName = std::map<api::NamespacedName, std::optional<T>>;  // nullopt: deleted

  ByName<api::Service> services;
  ByName<api::EndpointSlice> slices;
  std::optional<std::optional<api::Node>> node;  // this node's
  // Objects that exist but cannot be read, with the reason; nullopt: readable again, or deleted.
  std::map<api::ObjectKey, std::optional<std::string>> unreadable;
  // Set when it changes: whether all existing objects, except the unreadable ones, are now known.
  std::optional<bool> complete;
  // The requested second listing of all objects is included.
  bool listed_again = false;

  bool empty() const;
  void put(api::Object object);
  void remove(const api::ObjectKey& gone);
  void merge(Changes later);
};

}  // namespace ipvsproxier::model
