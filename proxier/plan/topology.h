#pragma once

// Which endpoints of a service port take its traffic on this node. Pure; any thread.
// Behaviour: kube-proxy's (readiness, terminating fallback, traffic policies, topology hints).

#include <string_view>
#include <vector>

#include "proxier/model/endpoint.h"
#include "proxier/model/service_port.h"

namespace ipvsproxier::plan {

// Why an endpoint gets traffic on this node, or none.
enum class EndpointUse : std::uint8_t {
  used,
  last_resort,  // gets traffic although it terminates: no other one could
  not_ready,
  terminating,  // its connections may end
  not_local,    // the traffic policy is Local, it is on another node
  other_node,   // hints send this node's traffic to others
  other_zone,
};

std::string_view to_string(EndpointUse use);  // "other zone"

struct EndpointChoice {
  std::vector<const model::Endpoint*> cluster;  // for policy Cluster; empty if nothing uses it
  std::vector<const model::Endpoint*> local;    // for policy Local; empty if nothing uses it

  bool any = false;  // some endpoint anywhere could take traffic

  // The endpoints of a facet: the local ones if its policy is Local and there are any or it is
  // strict, else the cluster-wide ones.
  const std::vector<const model::Endpoint*>& of_facet(bool local_only, bool strict) const {
    return by_local(local_only, strict) ? local : cluster;
  }
  bool by_local(bool local_only, bool strict) const {
    return local_only && (strict || !local.empty());
  }
};

// The result points into `endpoints`.
EndpointChoice choose_endpoints(const model::ServicePort& port,
                                const std::vector<model::Endpoint>& endpoints);

// For each endpoint, in their order, why it is one of those that choose_endpoints() chose by policy
// Local or Cluster, or why not.
std::vector<EndpointUse> judge_endpoints(const std::vector<model::Endpoint>& endpoints,
                                         bool by_local);

}  // namespace ipvsproxier::plan
