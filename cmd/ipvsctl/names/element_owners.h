#pragma once

// The Services to which the elements of our sets belong, by the cluster's names. Pure; any thread.

#include <map>
#include <set>
#include <string>

#include "cmd/ipvsctl/names/cluster_names.h"
#include "ipset/sets/set_types.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::ctl {

class ElementOwners {
 public:
  // Owners for elements of this set.
  ElementOwners(const plan::SetKey& set, const ClusterNames& names);

  // The Service ports of the element's virtual service or node port ("shop/web:http"), or the
  // Services ("shop/web") to which the address, the endpoint (in KUBE-LOOP-BACK, and
  // local_endpoints of nf_tables) or the health check node port belongs.
  const std::set<std::string>& of(const ipset::Element& element) const;

  // Whether an element without owner belongs to no Service. False for sets whose elements may
  // belong to Services without a virtual service, which have no names here.
  bool knows_all() const;

 private:
  void take_virtuals(const ClusterNames& names);
  void take_endpoints(const ClusterNames& names);
  void take_health_checks(const ClusterNames& names);

  plan::SetKey set_;
  // Keyed by the parts of an element that determine its owner.
  std::map<ipset::Element, std::set<std::string>> owners_;
};

}  // namespace ipvsproxier::ctl
