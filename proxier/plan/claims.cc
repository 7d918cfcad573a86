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

void Claims::forget(const Entry& entry, std::set<api::NamespacedName>& others) {
  for (const auto& claim : entry.second.claims) {
    const auto it = keys_.find(claim.key);
    if (it == keys_.end()) continue;  // asked for by two facets
    auto& asked = it->second;
    std::erase_if(asked, [&](const Asked& one) { return one.by == &entry; });
    for (const auto& one : asked) others.insert(one.by->first);
    if (asked.size() < 2) contested_.erase(claim.key);
    if (asked.empty()) keys_.erase(it);
  }
}

std::set<api::NamespacedName> Claims::set(const api::NamespacedName& name,
                                          const api::Service* service, std::vector<Claim> claims) {
  std::set<api::NamespacedName> others;
  const auto [it, added] = claimants_.try_emplace(name);
  if (!added) forget(*it, others);
  if (claims.empty() || service == nullptr) {
    claimants_.erase(it);
    return others;
  }
  it->second = {service->origin, service->creation_time, std::move(claims)};
  const Entry& entry = *it;
  for (const auto& claim : entry.second.claims) {
    auto& asked = keys_[claim.key];
    // One port may reach an address in two ways.
    const auto same = [&](const Asked& one) { return one.by == &entry && one.port == claim.port; };
    if (std::any_of(asked.begin(), asked.end(), same)) continue;
    for (const auto& one : asked)
      if (one.by != &entry) others.insert(one.by->first);
    asked.push_back(Asked{&entry, claim.facet, claim.port});
    if (asked.size() == 2) contested_.insert(claim.key);
  }
  return others;
}

// Whether age decides among all who claim a key: if one of them has none, names decide for all, so
// that the order has no cycles.
bool Claims::ages_decide(const std::vector<Asked>& asked) {
  return std::all_of(asked.begin(), asked.end(),
                     [](const Asked& one) { return one.by->second.creation_time.has_value(); });
}

const Claims::Asked& Claims::winner_of(const std::vector<Asked>& asked) {
  const bool by_age = ages_decide(asked);
  const auto before = [by_age](const Asked& a, const Asked& b) {
    if (a.by == b.by) return a.port < b.port;
    if (by_age && a.by->second.creation_time != b.by->second.creation_time)
      return a.by->second.creation_time < b.by->second.creation_time;
    return a.by->first < b.by->first;
  };
  return *std::min_element(asked.begin(), asked.end(), before);
}

std::string Claims::reason(const std::vector<Asked>& asked, const Asked& winner,
                           const Asked& loser) {
  if (winner.by == loser.by) return "whose port comes first";
  if (ages_decide(asked) && winner.by->second.creation_time < loser.by->second.creation_time)
    return "which is older";
  return "whose name comes first";
}

api::Problem Claims::lost(const netlink::VirtualServiceKey& key, const std::vector<Asked>& asked,
                          const Asked& winner, const Asked& loser) {
  const auto& [other, claimant] = *winner.by;
  const std::string place = claimant.origin.empty() ? "" : fmt::format(" ({})", claimant.origin);
  return {.severity = api::Severity::error,
          .origin = loser.by->second.origin,
          .object = "Service " + api::to_string(loser.by->first),
          .field = field_of(loser.facet, loser.port),
          .message = fmt::format("{} is claimed by Service {}{} too, {}: it keeps it, and this "
                                 "Service is not programmed there",
                                 netlink::to_string(key), api::to_string(other), place,
                                 reason(asked, winner, loser))};
}

bool Claims::holds(const api::NamespacedName& service, std::size_t port,
                   const netlink::VirtualServiceKey& key) const {
  const auto it = keys_.find(key);
  if (it == keys_.end()) return false;
  const auto& winner = winner_of(it->second);
  return winner.by->first == service && winner.port == port;
}

api::Problems Claims::problems() const {
  api::Problems problems;
  for (const auto& key : contested_) {
    const auto& asked = keys_.at(key);
    const Asked& winner = winner_of(asked);
    for (const auto& one : asked)
      if (&one != &winner) problems.push_back(lost(key, asked, winner, one));
  }
  return problems;
}

}  // namespace ipvsproxier::plan
