#pragma once

// ClusterState: the cluster's objects that concern this node, as last read. One thread at a time.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/model/changes.h"
#include "proxier/model/endpoint.h"
#include "proxier/model/service_settings.h"

namespace ipvsproxier::model {

// The time when an EndpointSlice of the Service changed, according to the cluster. Several slices
// may carry the time of the same change.
struct Trigger {
  api::NamespacedName service;
  netlink::Family family = netlink::Family::ipv4;
  std::chrono::system_clock::time_point time;

  friend auto operator<=>(const Trigger&, const Trigger&) = default;
};

// The Services and the Node that a set of changes really affected. An object that differs only in
// data that is not kept (metadata) is not affected.
struct Touched {
  std::set<api::NamespacedName> services;  // the Service or its EndpointSlices changed
  bool node = false;
  std::vector<Trigger> triggers;
};

struct ClusterState {
  std::map<api::NamespacedName, api::Service> services;
  std::map<api::NamespacedName, SlicesByName> slices;  // by the Service that they belong to
  std::optional<api::Node> node;                       // this node's
  // Objects that exist and cannot be read, with the reason. If an object was readable before, the
  // members above hold its last readable state.
  std::map<api::ObjectKey, std::string> unreadable;
  // All other objects could be read: an object that is absent here does not exist.
  bool complete = true;

  // Adds the object, or replaces the one of its kind and name. EndpointSlices without a Service
  // name are dropped.
  void put(api::Object object);

  // Applies the changes; returns the Services and the Node that they affected.
  Touched take(Changes changes);

  // What the annotations of the Service ask for. They are parsed once, when it changes.
  const ParsedSettings& settings_of(const api::NamespacedName& service) const;
  // The same of each Service that has annotations.
  const std::map<api::NamespacedName, ParsedSettings>& settings() const { return settings_; }

  // Whether the object is present, in its current state or in the last readable one.
  bool knows(const api::ObjectKey& key) const;

 private:
  void take_service(const api::NamespacedName& name, std::optional<api::Service> now,
                    Touched& touched);
  void take_slice(const api::NamespacedName& name, std::optional<api::EndpointSlice> now,
                  Touched& touched);

  // The Service of a known slice; nullopt for an unknown slice.
  std::optional<api::NamespacedName> service_of(const api::NamespacedName& slice) const;

  std::map<api::NamespacedName, ParsedSettings> settings_;  // of Services that have annotations
  // The Service of each slice whose name does not begin with the Service's name and "-".
  std::map<api::NamespacedName, std::string> oddly_named_;
};

}  // namespace ipvsproxier::model
