#pragma once

// Changes: what happened to the cluster's objects, each as its newest state, keyed by name; the
// last writer wins, but for the time that triggered the change of a slice, which is the oldest.
// From a source of objects to ClusterState::take(). Values; one thread at a time.

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
  // Why an object that exists cannot be read; nullopt: it can be now, or is gone.
  std::map<api::ObjectKey, std::optional<std::string>> unreadable;
  // Everything that exists is known by now (or: is not any more), but for what is unreadable.
  std::optional<bool> complete;
  // Everything was listed a second time, as was asked for.
  bool listed_again = false;

  bool empty() const;
  void put(api::Object object);
  void merge(Changes later);
};

}  // namespace ipvsproxier::model
