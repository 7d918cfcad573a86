#pragma once

// ClusterState: the objects that concern this node, as last read. Owned by one thread at a time.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/model/changes.h"
#include "proxier/model/endpoint.h"

namespace ipvsproxier::model {

// When an EndpointSlice of the Service changed, as the cluster says. The same change may have
// touched several slices.
struct Trigger {
  api::NamespacedName service;
  netlink::Family family = netlink::Family::ipv4;
  std::chrono::system_clock::time_point time;

  friend auto operator<=>(const Trigger&, const Trigger&) = default;
};

// What changes of objects really touched: nothing where an object is the same as before, but for
// what is not kept of it (its metadata).
struct Touched {
  std::set<api::NamespacedName> services;  // Services that changed, or their EndpointSlices
  bool node = false;
  std::vector<Trigger> triggers;
};

struct ClusterState {
  std::map<api::NamespacedName, api::Service> services;
  std::map<api::NamespacedName, SlicesByName> slices;  // by the Service that they belong to
  std::optional<api::Node> node;                       // this node's
  // Objects that exist and cannot be read, and why. Of those that could be before, what they were
  // is above.
  std::map<api::ObjectKey, std::string> unreadable;
  // Everything else could be read: what is not here does not exist.
  bool complete = true;

  // Adds the object or replaces the one of its kind and name. EndpointSlices without a Service name
  // belong to nobody and are dropped.
  void put(api::Object object);

  // Folds changes in.
  Touched take(Changes changes);

  // Whether the object is here, as it is or as it was before it became unreadable.
  bool knows(const api::ObjectKey& key) const;

 private:
  void take_service(const api::NamespacedName& name, std::optional<api::Service> now,
                    Touched& touched);
  void take_slice(const api::NamespacedName& name, std::optional<api::EndpointSlice> now,
                  Touched& touched);

  // The Service of a slice that is there; nullopt: it is not.
  std::optional<api::NamespacedName> service_of(const api::NamespacedName& slice) const;

  // The Service of those slices, in their namespace, whose names do not begin with its name and
  // "-".
  std::map<api::NamespacedName, std::string> oddly_named_;
};

}  // namespace ipvsproxier::model
