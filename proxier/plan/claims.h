#pragma once

// Claims: who gets a virtual service that more than one Service asks for. Pure.

#include <map>
#include <string>
#include <vector>

#include "proxier/api/problem.h"
#include "proxier/model/service_port.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// One facet of a service port: a virtual service that it asks for.
struct FacetClaim {
  const model::ServicePort* port = nullptr;
  Facet facet = Facet::cluster_ip;
  netlink::VirtualServiceKey key;
};

class Claims {
 public:
  void add(const FacetClaim& claim);

  // Settles contested keys: the Service that was created first keeps the key; at equal or missing
  // creation time the one whose namespace/name comes first; within one Service the port that comes
  // first. Answers one problem for each claim that lost.
  api::Problems settle();

  // After settle(): whether this service port has the key.
  bool holds(const model::ServicePort& port, const netlink::VirtualServiceKey& key) const;

 private:
  std::map<netlink::VirtualServiceKey, FacetClaim> holders_;
  std::map<netlink::VirtualServiceKey, std::vector<FacetClaim>> contested_;
};

}  // namespace ipvsproxier::plan
