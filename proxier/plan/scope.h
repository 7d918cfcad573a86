#pragma once

// Scope: the parts of the kernel state that are to be looked at, as keys. So that the cost of a
// change follows the change. A value; any thread.

#include <map>
#include <set>

#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

using ServiceKeySet = ipset::SortedChunks<netlink::VirtualServiceKey>;

struct Scope {
  ServiceKeySet services;  // with their real servers
  AddressSet addresses;    // on the dummy link
  std::map<SetKey, ipset::ElementSet> elements;
  std::set<netlink::Family> rules;

  bool empty() const;
  void merge(const Scope& other);

  friend bool operator==(const Scope&, const Scope&) = default;
};

}  // namespace ipvsproxier::plan
