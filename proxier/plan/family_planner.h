#pragma once

// FamilyPlanner: keeps the desired state of one family up to date, one Service at a time. Part of
// Planner (planner.h). Pure; one thread.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ipset/filter/rendering.h"
#include "proxier/plan/claims.h"
#include "proxier/plan/granted_settings.h"
#include "proxier/plan/namespace_share.h"
#include "proxier/plan/service_plan.h"
#include "proxier/plan/service_report.h"

namespace ipvsproxier::plan {

class FamilyPlanner {
 public:
  // `options` and `state` must outlive this.
  FamilyPlanner(netlink::Family family, const PlannerOptions& options, DesiredState& state);

  // Takes effect with the next update().
  void set_node(const NodeInfo& node);
  // Takes effect with the next update() of the Services that are returned: those that a change of
  // the foreign virtual services of the family concerns.
  std::set<api::NamespacedName> set_foreign(const std::set<netlink::VirtualServiceKey>& foreign,
                                            const model::ClusterState& cluster);
  // Takes effect with the next update() of the Services that are returned: those that ask for a
  // scheduler whose absence changed.
  std::set<api::NamespacedName> set_absent_schedulers(
      const std::set<std::string, std::less<>>& absent, const model::ClusterState& cluster);
  // Takes effect with the next update() of the Services that are returned: those with an external
  // address that is now one of the API server, or no longer.
  std::set<api::NamespacedName> set_api_server(std::set<netlink::IpAddress> reached,
                                               const model::ClusterState& cluster);
  // Plans these Services again, or all after set_node(). `scopes` collects the affected keys;
  // nullptr discards them at once, which saves memory.
  void update(std::set<api::NamespacedName> names, const model::ClusterState& cluster,
              ScopesByService* scopes);
  void update_all(const model::ClusterState& cluster) {
    plan_all_ = true;
    update({}, cluster, nullptr);
  }

  // Adds the virtual services that the Service owns, and its addresses.
  void add_vips_of(const api::NamespacedName& service, Scope& scope) const;
  // The same with its elements.
  void add_scope_of(const api::NamespacedName& service, Scope& scope) const;
  void add_claims_held_by(const api::NamespacedName& service, std::vector<Claim>& claims) const;
  model::ParsedSettings settings_of(const api::NamespacedName& service,
                                    const model::ClusterState& cluster) const;
  std::vector<PortReport> report_of(const api::NamespacedName& service,
                                    const model::ClusterState& cluster) const;
  const api::NamespacedName* owner_of(const netlink::VirtualServiceKey& key) const {
    return claims_.owner_of(key);
  }
  // Problems of contested claims, and of Services whose wishes are not all granted.
  api::Problems problems() const;
  netlink::Family family() const { return node_.family; }
  const LocalLack& local_lack() const { return found_.local_lack; }
  std::size_t meet_foreign() const { return found_.meet_foreign.size(); }

 private:
  bool is_met_by(const Foreign& foreign, const api::Service& service) const;
  // The parts of the desired state that exist because of one Service, as keys: its claims (of which
  // it may own some) and the traffic that it may share with others.
  struct Part {
    Claims::Claimant claimant;
    SortedVector<SharedTraffic> shared;
    LocalLack local_lack;

    bool is_empty() const {
      return claimant.claims.empty() && shared.empty() && local_lack == LocalLack{};
    }
  };
  // Virtual services that a Service had and no Service has any more.
  using Ended = std::vector<std::pair<netlink::VirtualServiceKey, VipTraffic>>;
  using Names = std::set<api::NamespacedName>;
  using Ports = std::vector<model::ServicePort>;

  // The ports of Services during one update. Those of the first Services are computed once, those
  // of further ones at each use: the ports of a whole cluster would take much memory.
  class PortsOnce {
   public:
    PortsOnce(const FamilyPlanner& planner, const model::ClusterState& cluster)
        : planner_(planner), cluster_(cluster) {}
    // Valid until the next call.
    const Ports& of(const api::NamespacedName& service);

   private:
    static constexpr std::size_t kMost = 64;

    const FamilyPlanner& planner_;
    const model::ClusterState& cluster_;
    std::map<api::NamespacedName, Ports> first_;
    Ports other_;
  };

  Ports ports_of(const api::NamespacedName& name, const model::ClusterState& cluster) const;
  using ScopeOf = std::function<Scope&(const api::NamespacedName&)>;
  Names take_claims(const Names& names, const model::ClusterState& cluster, PortsOnce& ports,
                    const ScopeOf& scope_of, std::map<api::NamespacedName, Ended>& ended);
  bool refresh_node_addresses();
  Names refresh_api_server(const model::ClusterState& cluster);
  Names share_tables(const Names& names, const model::ClusterState& cluster);
  Names with_node_ports(const model::ClusterState& cluster) const;
  void replace(const api::NamespacedName& name, ServicePlan plan, const Ended& ended, Scope& scope);
  void render(const netlink::VirtualServiceKey& key, const VipTraffic& traffic,
              ipset::Rendered& rendered) const {
    ipset::render(options_.packet_filter, key, traffic, rendered);
  }
  bool bind(const SortedVector<netlink::IpAddress>& before,
            const SortedVector<netlink::IpAddress>& wanted, Scope& scope);
  ipset::RuleParameters& rules() { return state_.rules.at(node_.family); }

  const PlannerOptions& options_;
  DesiredState& state_;
  NodeInfo node_info_;
  FamilyNode node_;
  std::set<netlink::IpAddress> reached_;  // set_api_server()
  bool plan_all_ = false;                 // the node changed
  std::string no_localhost_;  // why node ports are not on localhost; "" if they are, or need not
  bool rules_changed_ = true;
  Claims claims_;
  std::map<netlink::IpAddress, unsigned> shared_addresses_;  // and how many further Services ask
  ipset::Rendering rendering_;
  NamespaceShare tables_{kTablesOfAll};
  std::map<api::NamespacedName, Part> parts_;
  // What was found of Services, as ServicePlan has it.
  struct Findings {
    std::map<api::NamespacedName, api::Problems> not_granted;
    LocalLack local_lack;  // the sum of all
    Names meet_foreign;
  } found_;
};

}  // namespace ipvsproxier::plan
