#pragma once

// Which endpoints of a service port take its traffic on this node. Pure; any thread.
// Behaviour: kube-proxy's (readiness, terminating fallback, traffic policies, topology hints).

#include <string_view>
#include <vector>

#include "proxier/model/endpoint.h"
#include "proxier/model/service_port.h"

namespace ipvsproxier::plan {

struct EndpointChoice {
  std::vector<const model::Endpoint*> cluster;  // for policy Cluster; empty if nothing uses it
  std::vector<const model::Endpoint*> local;    // for policy Local; empty if nothing uses it

  bool any = false;  // some endpoint anywhere could take traffic

  // The endpoints of a facet: the local ones if its policy is Local and there are any or it is
  // strict, else the cluster-wide ones.
  const std::vector<const model::Endpoint*>& of_facet(bool local_only, bool strict) const {
    return local_only && (strict || !local.empty()) ? local : cluster;
  }
};

// The result points into `endpoints`.
EndpointChoice choose_endpoints(const model::ServicePort& port,
                                const std::vector<model::Endpoint>& endpoints);

}  // namespace ipvsproxier::plan
