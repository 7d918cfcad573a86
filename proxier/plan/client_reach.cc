#include "proxier/plan/client_reach.h"

#include <algorithm>
#include <optional>
#include <variant>

namespace ipvsproxier::plan {

namespace {

using ChosenEndpoints = std::vector<const model::Endpoint*>;

class Judge {
 public:
  Judge(const model::ServicePort& port, const EndpointChoice& choice,
        const std::optional<Claim>& goal, const ipset::RuleParameters& rules,
        const PlannerOptions& options)
      : port_(port), choice_(choice), goal_(goal), rules_(rules), options_(options) {}

  ClientReach run(Client client, bool at_node_port) const {
    ClientReach reach{.client = client, .at_node_port = at_node_port};
    const auto facet = client == Client::localhost ? Facet::localhost
                       : at_node_port              ? Facet::node_port
                                                   : Facet::external_ip;
    const bool sent_on = goal_ && is_sent_on(client, at_node_port);
    const auto& endpoints = endpoints_of(sent_on ? goal_->facet : facet);
    for (const auto* one : endpoints) ++(one->local ? reach.here : reach.elsewhere);
    reach.keeps_source = keeps_source(client, sent_on);
    if (!endpoints.empty())
      reach.outcome = is_answered(client, at_node_port, sent_on, reach) ? ReachOutcome::served
                                                                        : ReachOutcome::unanswered;
    else if (goal_ && !sent_on && choice_.any && client != Client::localhost)
      reach.outcome = ReachOutcome::dropped;
    return reach;
  }

 private:
  const ChosenEndpoints& endpoints_of(Facet facet) const {
    const auto [local_only, strict] = policy_of(port_, facet, goal_.has_value(), options_);
    return choice_.of_facet(local_only, strict);
  }

  bool tells_pods() const {
    if (const auto* prefix = std::get_if<netlink::IpPrefix>(&rules_.detector))
      return prefix->family() == port_.cluster_ip.family();
    return !std::holds_alternative<std::monostate>(rules_.detector);
  }
  // At node ports, a detector by addresses may know pods of all nodes.
  bool tells_own_pods() const {
    return tells_pods() &&
           (rules_.own_pods || !std::holds_alternative<netlink::IpPrefix>(rules_.detector));
  }

  bool is_sent_on(Client client, bool at_node_port) const {
    switch (client) {
      case Client::outside:
      case Client::localhost:
        return false;
      case Client::node:
        return true;
      case Client::pod:
        return at_node_port ? tells_own_pods() : tells_pods();
    }
    return false;
  }

  bool keeps_source(Client client, bool sent_on) const {
    if (client == Client::node || client == Client::localhost) return false;
    return !sent_on || !rules_.masquerade_all;
  }

  // Endpoints elsewhere answer the source that they see, and the answer must come back through this
  // node. A VIP that this node took as its source is another node's as well.
  bool is_answered(Client client, bool at_node_port, bool sent_on, const ClientReach& reach) const {
    if (sent_on || reach.elsewhere == 0 || client == Client::pod || client == Client::localhost)
      return true;
    return client == Client::node && (at_node_port || !rules_.vips_are_sources);
  }

  const model::ServicePort& port_;
  const EndpointChoice& choice_;
  const std::optional<Claim>& goal_;
  const ipset::RuleParameters& rules_;
  const PlannerOptions& options_;
};

}  // namespace

std::string_view to_string(Client client) {
  switch (client) {
    case Client::outside:
      return "a client outside";
    case Client::node:
      return "this node";
    case Client::pod:
      return "a pod of this node";
    case Client::localhost:
      return "this node on localhost";
  }
  return "?";
}

std::string_view to_string(ReachOutcome outcome) {
  switch (outcome) {
    case ReachOutcome::served:
      return "served";
    case ReachOutcome::unanswered:
      return "no answer comes back";
    case ReachOutcome::dropped:
      return "dropped";
    case ReachOutcome::refused:
      return "refused";
  }
  return "?";
}

std::vector<ClientReach> client_reach(const model::ServicePort& port, const EndpointChoice& choice,
                                      const std::optional<Claim>& goal,
                                      const ipset::RuleParameters& rules,
                                      const PlannerOptions& options) {
  std::vector<ClientReach> all;
  if (!port.external_policy_local) return all;
  const Judge judge(port, choice, goal, rules, options);
  const bool has_addresses = !port.external_ips.empty() || !port.load_balancer_ips.empty();
  for (const auto client : {Client::outside, Client::node, Client::pod}) {
    if (has_addresses) all.push_back(judge.run(client, false));
    if (port.node_port != 0) all.push_back(judge.run(client, true));
  }
  if (port.node_port != 0 && rules.localhost) all.push_back(judge.run(Client::localhost, true));
  return all;
}

}  // namespace ipvsproxier::plan
