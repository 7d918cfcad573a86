#pragma once

// Which endpoints of a service port take its traffic on this node. Pure; any thread.
// Behaviour: kube-proxy's (readiness, terminating fallback, traffic policies, topology hints).

#include <cstdint>
#include <string_view>
#include <vector>

#include "proxier/model/endpoint.h"
#include "proxier/model/service_port.h"

namespace ipvsproxier::plan {

// Why an endpoint gets traffic on this node, or does not.
enum class EndpointUse : std::uint8_t {
  used,
  last_resort,  // terminating, but used because no other endpoint is available
  not_ready,
  terminating,  // only its existing connections go on
  not_local,    // the traffic policy is Local and the endpoint is on another node
  other_node,   // hints direct this node's traffic to other endpoints
  other_zone,
};

std::string_view to_string(EndpointUse use);  // "other zone"

// The weight that planning gives the real server of an endpoint, and why; "": nobody asks for
// another. 0 for one that gets nothing new: if it is in the kernel still, it drains.
struct ServerWeight {
  std::uint32_t weight = 1;
  std::string_view why;  // static
};
ServerWeight weight_of(const model::Endpoint& endpoint, EndpointUse use);

struct EndpointChoice {
  std::vector<const model::Endpoint*> cluster;  // for policy Cluster; empty if nothing uses it
  std::vector<const model::Endpoint*> local;    // for policy Local; empty if nothing uses it

  bool any = false;  // at least one endpoint on any node can take traffic

  // The endpoints of a facet: the local ones if its policy is Local and it is strict or has local
  // endpoints, else the cluster-wide ones.
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

// For each endpoint, in order: whether choose_endpoints() chose it for policy Local or Cluster, or
// why not.
std::vector<EndpointUse> judge_endpoints(const std::vector<model::Endpoint>& endpoints,
                                         bool by_local);

}  // namespace ipvsproxier::plan
