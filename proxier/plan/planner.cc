#include "proxier/plan/planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "proxier/plan/family_planner.h"
#include "proxier/plan/leftovers.h"
#include "proxier/plan/other_programs.h"

namespace ipvsproxier::plan {

namespace {

Places places_of(const PlannerOptions& options) {
  if (options.bind_by_routes) return Places::local_table;
  return options.differences.spread_addresses ? Places::all_links : Places::first_link;
}

}  // namespace

Planner::Planner(PlannerOptions options) : options_(std::move(options)) {
  state_.excluded = options_.exclude_cidrs;
  state_.keep_foreign_services = options_.differences.keep_foreign_services;
  state_.drain_deleted_services = options_.drain_deleted_services;
  state_.drain_sctp = options_.differences.drain_sctp;
  state_.packet_filter = options_.packet_filter;
  state_.growing_sets = options_.differences.growing_sets;
  state_.places = places_of(options_);
  for (auto family : options_.families)
    families_.push_back(std::make_unique<FamilyPlanner>(family, options_, state_));
}

Planner::~Planner() = default;

void Planner::set_node(const NodeInfo& node) {
  state_.inherited = inherited_addresses(node, options_);
  for (auto& family : families_) family->set_node(node);
}

std::set<api::NamespacedName> Planner::set_foreign(
    const std::set<netlink::VirtualServiceKey>& foreign, const model::ClusterState& cluster) {
  std::set<api::NamespacedName> names;
  for (auto& family : families_) names.merge(family->set_foreign(foreign, cluster));
  return names;
}

std::set<api::NamespacedName> Planner::set_absent_schedulers(
    const std::set<std::string, std::less<>>& absent, const model::ClusterState& cluster) {
  std::set<api::NamespacedName> names;
  for (auto& family : families_) names.merge(family->set_absent_schedulers(absent, cluster));
  return names;
}

std::set<api::NamespacedName> Planner::set_api_server(const std::set<netlink::IpAddress>& reached,
                                                      const model::ClusterState& cluster) {
  std::set<api::NamespacedName> names;
  for (auto& family : families_) names.merge(family->set_api_server(reached, cluster));
  return names;
}

Scope Planner::update(const std::set<api::NamespacedName>& services,
                      const model::ClusterState& cluster) {
  Scope all;
  for (const auto& [service, scope] : update_each(services, cluster)) all.merge(scope);
  return all;
}

ScopesByService Planner::update_each(const std::set<api::NamespacedName>& services,
                                     const model::ClusterState& cluster) {
  ScopesByService scopes;
  state_.complete = cluster.complete;
  for (auto& family : families_) family->update(services, cluster, &scopes);
  for (auto& [service, scope] : scopes) forget_leftovers(scope, state_);
  return scopes;
}

void Planner::update_all(const model::ClusterState& cluster) {
  state_.complete = cluster.complete;
  for (auto& family : families_) family->update_all(cluster);
}

Scope Planner::scope_of(const api::NamespacedName& service) const {
  Scope scope;
  for (const auto& family : families_) family->add_scope_of(service, scope);
  return scope;
}

Scope Planner::vips_of(const api::NamespacedName& service) const {
  Scope scope;
  for (const auto& family : families_) family->add_vips_of(service, scope);
  return scope;
}

const api::NamespacedName* Planner::owner_of(const netlink::VirtualServiceKey& service) const {
  for (const auto& planner : families_)
    if (planner->family() == service.address.family()) return planner->owner_of(service);
  return nullptr;
}

std::vector<Claim> Planner::claims_held_by(const api::NamespacedName& service) const {
  std::vector<Claim> claims;
  for (const auto& family : families_) family->add_claims_held_by(service, claims);
  return claims;
}

model::ParsedSettings Planner::settings_of(const api::NamespacedName& service,
                                           const model::ClusterState& cluster) const {
  return families_.empty() ? model::ParsedSettings()
                           : families_.front()->settings_of(service, cluster);
}

std::vector<PortReport> Planner::report_of(const api::NamespacedName& service,
                                           const model::ClusterState& cluster) const {
  std::vector<PortReport> reports;
  for (const auto& family : families_) {
    auto some = family->report_of(service, cluster);
    std::move(some.begin(), some.end(), std::back_inserter(reports));
  }
  return reports;
}

LocalLack Planner::local_lack(netlink::Family family) const {
  for (const auto& planner : families_)
    if (planner->family() == family) return planner->local_lack();
  return {};
}

std::size_t Planner::meet_foreign(netlink::Family family) const {
  for (const auto& planner : families_)
    if (planner->family() == family) return planner->meet_foreign();
  return 0;
}

api::Problems Planner::problems() const {
  api::Problems problems;
  if (!state_.inherited.empty()) problems.push_back(inherited_problem());
  std::set<api::Problem> told;  // both families have those of a Service's annotations
  for (const auto& family : families_)
    for (auto& problem : family->problems())
      if (told.insert(problem).second) problems.push_back(std::move(problem));
  return problems;
}

Plan plan(const model::ClusterState& cluster, const NodeInfo& node, const PlannerOptions& options) {
  Planner planner(options);
  planner.set_node(node);
  planner.update_all(cluster);
  return {planner.desired(), planner.problems()};
}

}  // namespace ipvsproxier::plan
