#pragma once

// Scope: the keys of the kernel state to compare, so that the cost of a sync is proportional to the
// change. A value; any thread.

#include <map>
#include <set>

#include "proxier/api/names.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

using ServiceKeySet = netlink::SortedChunks<netlink::VirtualServiceKey>;

struct Scope {
  ServiceKeySet services;  // with their real servers
  AddressSet addresses;    // bound by links or local routes
  std::map<SetKey, ipset::ElementSet> elements;
  std::set<netlink::Family> rules;

  bool empty() const;
  void merge(const Scope& other);

  friend bool operator==(const Scope&, const Scope&) = default;
};

// The keys that belong to each Service; those of the node have an empty name.
using ScopesByService = std::map<api::NamespacedName, Scope>;

// Adds the desired virtual services whose real servers decide when the scope's elements may change:
// those by which clients keep their source, are sent on or are dropped (diff.h), and those to which
// in-cluster clients of its virtual services are sent, with their addresses. Compared without them
// such an element would not wait for real servers that are still to leave or to come.
void add_deciding(const DesiredState& desired, Scope& scope);

}  // namespace ipvsproxier::plan
