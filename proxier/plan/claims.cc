#include "proxier/plan/claims.h"

#include <algorithm>

#include <fmt/format.h>

namespace ipvsproxier::plan {

namespace {

std::string field_of(Facet facet, std::size_t port) {
  switch (facet) {
    case Facet::cluster_ip:
      return "spec.clusterIP";
    case Facet::external_ip:
      return "spec.externalIPs";
    case Facet::load_balancer:
      return "status.loadBalancer.ingress";
    case Facet::node_port:
      return fmt::format("spec.ports[{}].nodePort", port);
  }
  return "";
}

}  // namespace

std::strong_ordering Claims::Asked::operator<=>(const Asked& other) const {
  if (const auto order = key <=> other.key; order != 0) return order;
  if (by != other.by)
    if (const auto order = *by->name <=> *other.by->name; order != 0) return order;
  return port <=> other.port;
}

Claims::Rivals Claims::rivals_for(const netlink::VirtualServiceKey& key) const {
  Rivals rivals;
  rivals.first = asked_.partition_point([&](const Asked& one) { return one.key < key; });
  rivals.last = rivals.first;
  while (rivals.last != asked_.end() && rivals.last->key == key) ++rivals.last;
  return rivals;
}

void Claims::forget(const Claimant& claimant, std::set<api::NamespacedName>& others) {
  for (const auto& claim : claimant.claims) {
    asked_.erase({claim.key, &claimant, claim.facet, claim.port});
    const auto rivals = rivals_for(claim.key);
    for (const auto& one : rivals)
      if (one.by != &claimant) others.insert(*one.by->name);
    if (!rivals.contested()) contested_.erase(claim.key);
  }
}

std::set<api::NamespacedName> Claims::set(const api::NamespacedName& name, Claimant& claimant,
                                          const api::Service* service, std::vector<Claim> claims) {
  std::set<api::NamespacedName> others;
  forget(claimant, others);
  claimant = {};
  if (service == nullptr) return others;
  claims.shrink_to_fit();
  claimant = {&name, service->creation_time, std::move(claims), service->origin};
  for (const auto& claim : claimant.claims) {
    if (!asked_.insert({claim.key, &claimant, claim.facet, claim.port})) continue;
    const auto rivals = rivals_for(claim.key);
    for (const auto& one : rivals)
      if (one.by != &claimant) others.insert(*one.by->name);
    if (rivals.contested()) contested_.insert(claim.key);
  }
  return others;
}

// Whether age decides among all who claim a key: if one of them has none, names decide for all, so
// that the order has no cycles.
bool Claims::ages_decide(const Rivals& asked) {
  return std::all_of(asked.begin(), asked.end(),
                     [](const Asked& one) { return one.by->creation_time.has_value(); });
}

const Claims::Asked& Claims::winner_of(const Rivals& asked) {
  if (!ages_decide(asked)) return *asked.first;
  // Of the same age the first one, and they are in the order of their names and ports.
  return *std::min_element(asked.begin(), asked.end(), [](const Asked& a, const Asked& b) {
    return a.by->creation_time < b.by->creation_time;
  });
}

std::string Claims::reason(const Rivals& asked, const Asked& winner, const Asked& loser) {
  if (winner.by == loser.by) return "whose port comes first";
  if (ages_decide(asked) && winner.by->creation_time < loser.by->creation_time)
    return "which is older";
  return "whose name comes first";
}

api::Problem Claims::lost(const Rivals& asked, const Asked& winner, const Asked& loser) {
  const auto& origin = winner.by->origin;
  const std::string place = origin.empty() ? "" : fmt::format(" ({})", origin);
  return {.severity = api::Severity::error,
          .origin = loser.by->origin,
          .object = "Service " + api::to_string(*loser.by->name),
          .field = field_of(loser.facet, loser.port),
          .message = fmt::format("{} is claimed by Service {}{} too, {}: it keeps it, and this "
                                 "Service is not programmed there",
                                 netlink::to_string(loser.key), api::to_string(*winner.by->name),
                                 place, reason(asked, winner, loser))};
}

bool Claims::holds(const api::NamespacedName& service, const Claim& claim) const {
  const auto rivals = rivals_for(claim.key);
  if (rivals.empty()) return false;
  const auto& winner = winner_of(rivals);
  return winner.port == claim.port && *winner.by->name == service;
}

const api::NamespacedName* Claims::owner_of(const netlink::VirtualServiceKey& key) const {
  const auto rivals = rivals_for(key);
  return rivals.empty() ? nullptr : winner_of(rivals).by->name;
}

api::Problems Claims::problems() const {
  api::Problems problems;
  for (const auto& key : contested_) {
    const auto rivals = rivals_for(key);
    const Asked& winner = winner_of(rivals);
    for (const auto& one : rivals)
      if (&one != &winner) problems.push_back(lost(rivals, winner, one));
  }
  return problems;
}

}  // namespace ipvsproxier::plan
