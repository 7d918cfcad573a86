#pragma once

// Whom the elements of our sets are for, by the names of the cluster. Pure; any thread.

#include <map>
#include <set>
#include <string>

#include "ipset/set_types.h"
#include "proxier/inspect/cluster_names.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::inspect {

class ElementOwners {
 public:
  // Of the elements of this set.
  ElementOwners(const plan::SetKey& set, const ClusterNames& names);

  // Those that have the element's virtual service or node port: "shop/web:http"; or "shop/web",
  // whose address, endpoint (of KUBE-LOOP-BACK) or health check node port it is.
  const std::set<std::string>& of(const ipset::Element& element) const;

  // Whether an element without one is for no Service. The names are those of Services that have a
  // virtual service, and what is not for one may be for another Service.
  bool knows_all() const;

 private:
  void take_virtuals(const ClusterNames& names);
  void take_endpoints(const ClusterNames& names);
  void take_health_checks(const ClusterNames& names);

  plan::SetKey set_;
  std::map<ipset::Element, std::set<std::string>> owners_;  // by what of an element they decide
};

}  // namespace ipvsproxier::inspect
