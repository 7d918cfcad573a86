#pragma once

// Who is served at the external addresses and node ports of a port of external policy Local, by
// which endpoints, and which source these see: what plan and rules come to, for display. Source
// ranges come before it. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "proxier/plan/service_plan.h"
#include "proxier/plan/topology.h"

namespace ipvsproxier::plan {

// `localhost`: this node, that asks for a node port there.
// `outside`: pods of other nodes at node ports, too.
enum class Client : std::uint8_t { outside, node, pod, localhost };
std::string_view to_string(Client client);  // "a pod of this node"

enum class ReachOutcome : std::uint8_t {
  served,
  unanswered,  // an endpoint elsewhere answers, to whom the client does not know
  dropped,     // so that the client tries again, while its balancer moves on
  refused,
};
std::string_view to_string(ReachOutcome outcome);

struct ClientReach {
  Client client = Client::outside;
  bool at_node_port = false;  // else at external IPs and load-balancer addresses
  ReachOutcome outcome = ReachOutcome::refused;
  std::size_t here = 0;  // endpoints that may serve it: on this node
  std::size_t elsewhere = 0;
  bool keeps_source = false;  // else the pod sees an address of this node

  friend bool operator==(const ClientReach&, const ClientReach&) = default;
};

// One entry for each client at each kind of address that the port has; none: the policy is Cluster.
// Pods of other nodes ask for addresses other than node ports at their own node.
// `goal`: that of the port among in_cluster_goals().
std::vector<ClientReach> client_reach(const model::ServicePort& port, const EndpointChoice& choice,
                                      const std::optional<Claim>& goal,
                                      const ipset::RuleParameters& rules,
                                      const PlannerOptions& options);

}  // namespace ipvsproxier::plan
