#include "proxier/plan/claims.h"

#include <algorithm>

#include <fmt/format.h>

namespace ipvsproxier::plan {

namespace {

using model::ServicePort;

std::string field_of(const FacetClaim& claim) {
  switch (claim.facet) {
    case Facet::cluster_ip:
      return "spec.clusterIP";
    case Facet::external_ip:
      return "spec.externalIPs";
    case Facet::load_balancer:
      return "status.loadBalancer.ingress";
    case Facet::node_port: {
      const auto& ports = claim.port->service->ports;
      const auto is_ours = [&](const api::ServicePort& port) {
        return port.name == claim.port->name.port && port.protocol == claim.port->name.protocol &&
               port.port == claim.port->port;
      };
      const auto index = std::find_if(ports.begin(), ports.end(), is_ours) - ports.begin();
      return fmt::format("spec.ports[{}].nodePort", index);
    }
  }
  return "";
}

// Whether age decides among all who claim a key: if one of them has none, names decide for all, so
// that the order has no cycles.
bool ages_decide(const std::vector<FacetClaim>& claims) {
  return std::all_of(claims.begin(), claims.end(), [](const FacetClaim& claim) {
    return claim.port->service->creation_time.has_value();
  });
}

bool older(const ServicePort& a, const ServicePort& b) {
  return a.service->creation_time < b.service->creation_time;
}

const FacetClaim& winner_of(const std::vector<FacetClaim>& claims) {
  const bool by_age = ages_decide(claims);
  const auto before = [by_age](const FacetClaim& a, const FacetClaim& b) {
    if (by_age && a.port->service->creation_time != b.port->service->creation_time)
      return older(*a.port, *b.port);
    return a.port->service->name < b.port->service->name;
  };
  return *std::min_element(claims.begin(), claims.end(), before);
}

std::string reason(const std::vector<FacetClaim>& claims, const ServicePort& winner,
                   const ServicePort& loser) {
  if (winner.service == loser.service) return "whose port comes first";
  if (ages_decide(claims) && older(winner, loser)) return "which is older";
  return "whose name comes first";
}

api::Problem lost(const std::vector<FacetClaim>& claims, const FacetClaim& winner,
                  const FacetClaim& loser) {
  const api::Service& other = *winner.port->service;
  const std::string place = other.origin.empty() ? "" : fmt::format(" ({})", other.origin);
  return {.severity = api::Severity::error,
          .origin = loser.port->service->origin,
          .object = "Service " + api::to_string(loser.port->name.service),
          .field = field_of(loser),
          .message = fmt::format("{} is claimed by Service {}{} too, {}: it keeps it, and this "
                                 "Service is not programmed there",
                                 netlink::to_string(loser.key), api::to_string(other.name), place,
                                 reason(claims, *winner.port, *loser.port))};
}

}  // namespace

void Claims::add(const FacetClaim& claim) {
  const auto [it, inserted] = holders_.try_emplace(claim.key, claim);
  if (inserted || it->second.port == claim.port) return;
  auto& claims = contested_[claim.key];
  if (claims.empty()) claims.push_back(it->second);
  const auto same_port = [&](const FacetClaim& other) { return other.port == claim.port; };
  if (std::none_of(claims.begin(), claims.end(), same_port)) claims.push_back(claim);
}

api::Problems Claims::settle() {
  api::Problems problems;
  for (const auto& [key, claims] : contested_) {
    const FacetClaim& winner = winner_of(claims);
    holders_[key] = winner;
    for (const auto& claim : claims)
      if (claim.port != winner.port) problems.push_back(lost(claims, winner, claim));
  }
  return problems;
}

bool Claims::holds(const ServicePort& port, const netlink::VirtualServiceKey& key) const {
  const auto it = holders_.find(key);
  return it != holders_.end() && it->second.port == &port;
}

}  // namespace ipvsproxier::plan
