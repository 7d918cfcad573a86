#include "proxier/plan/claims.h"

#include <algorithm>

#include <fmt/format.h>

namespace ipvsproxier::plan {

std::string field_of(Facet facet, std::size_t port) {
  switch (facet) {
    case Facet::cluster_ip:
      return "spec.clusterIP";
    case Facet::external_ip:
      return "spec.externalIPs";
    case Facet::load_balancer:
      return "status.loadBalancer.ingress";
    case Facet::in_cluster:
      return "spec.internalTrafficPolicy";
    case Facet::node_port:
    case Facet::localhost:
      return fmt::format("spec.ports[{}].nodePort", port);
  }
  return "";
}

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

// Whether `one` takes precedence over `other` for the same key.
bool Claims::precedes(const Asked& one, const Asked& other, bool ages_decide) {
  if (one.rank() != other.rank()) return one.rank() < other.rank();
  if (ages_decide && one.by->creation_time != other.by->creation_time)
    return one.by->creation_time < other.by->creation_time;
  return one < other;
}

std::optional<Claims::Asked> Claims::winner_of(const netlink::VirtualServiceKey& key) const {
  if (const auto it = contests_.find(key); it != contests_.end()) return it->second.winner;
  const auto only = asked_.partition_point([&](const Asked& one) { return one.key < key; });
  return only != asked_.end() && only->key == key ? std::optional(*only) : std::nullopt;
}

// Chooses the winner among all claims of the key.
void Claims::judge(const netlink::VirtualServiceKey& key) {
  Contest contest;
  const auto rivals = rivals_for(key);
  for (const auto& one : rivals) {
    ++contest.asking;
    contest.ageless += one.by->creation_time ? 0 : 1;
  }
  if (contest.asking < 2) {
    contests_.erase(key);
    return;
  }
  contest.winner = *std::min_element(rivals.begin(), rivals.end(),
                                     [&contest](const Asked& one, const Asked& other) {
                                       return precedes(one, other, contest.ages_decide());
                                     });
  contests_.insert_or_assign(key, contest);
}

void Claims::insert(const Asked& one) {
  if (!asked_.insert(one)) return;
  const auto it = contests_.find(one.key);
  if (it == contests_.end()) return judge(one.key);
  auto& contest = it->second;
  const bool by_age = contest.ages_decide();
  ++contest.asking;
  contest.ageless += one.by->creation_time ? 0 : 1;
  if (by_age != contest.ages_decide()) return judge(one.key);
  if (precedes(one, contest.winner, by_age)) contest.winner = one;
}

void Claims::erase(const Asked& one) {
  const auto it = contests_.find(one.key);
  if (asked_.erase(one) == 0 || it == contests_.end()) return;
  auto& contest = it->second;
  const bool by_age = contest.ages_decide();
  --contest.asking;
  contest.ageless -= one.by->creation_time ? 0 : 1;
  if (contest.asking < 2 || one == contest.winner || by_age != contest.ages_decide())
    judge(one.key);
}

std::set<api::NamespacedName> Claims::set(const api::NamespacedName& name, Claimant& claimant,
                                          const api::Service* service, std::vector<Claim> claims) {
  std::set<api::NamespacedName> others;
  const auto change = [&](const Claim& claim, auto do_it) {
    const auto* before = owner_of(claim.key);
    (this->*do_it)({claim.key, &claimant, claim.facet, claim.port, claim.lent});
    const auto* after = owner_of(claim.key);
    if (before == after) return;
    for (const auto* owner : {before, after})
      if (owner != nullptr && *owner != name) others.insert(*owner);
  };
  for (const auto& claim : claimant.claims) change(claim, &Claims::erase);
  claimant = {};
  if (service == nullptr) return others;
  claims.shrink_to_fit();
  claimant = {&name, service->creation_time, std::move(claims), service->origin};
  // If one port claims a key twice, the stronger facet is inserted first and stays.
  for (const auto rank : {ClaimRank::given, ClaimRank::named, ClaimRank::lent})
    for (const auto& claim : claimant.claims)
      if (rank_of(claim.facet, claim.lent) == rank) change(claim, &Claims::insert);
  return others;
}

std::string Claims::reason(const Contest& contest, const Asked& loser) {
  const auto& winner = contest.winner;
  if (winner.rank() < loser.rank())
    return winner.rank() == ClaimRank::given ? "to which it was given" : "whose address it is";
  if (winner.by == loser.by) return "whose port comes first";
  if (contest.ages_decide() && winner.by->creation_time < loser.by->creation_time)
    return "which is older";
  return "whose name comes first";
}

api::Problem Claims::lost(const Contest& contest, const Asked& loser) {
  const auto& winner = contest.winner;
  const auto& origin = winner.by->origin;
  const std::string place = origin.empty() ? "" : fmt::format(" ({})", origin);
  return {.severity = api::Severity::error,
          .origin = loser.by->origin,
          .object = "Service " + api::to_string(*loser.by->name),
          .field = field_of(loser.facet, loser.port),
          .message = fmt::format("{} is claimed by Service {}{} too, {}: it keeps it, and this "
                                 "Service is not programmed there",
                                 netlink::to_string(loser.key), api::to_string(*winner.by->name),
                                 place, reason(contest, loser))};
}

bool Claims::holds(const api::NamespacedName& service, const Claim& claim) const {
  const auto winner = winner_of(claim.key);
  return winner && winner->port == claim.port && *winner->by->name == service;
}

const api::NamespacedName* Claims::owner_of(const netlink::VirtualServiceKey& key) const {
  const auto winner = winner_of(key);
  return winner ? winner->by->name : nullptr;
}

api::Problems Claims::problems() const {
  api::Problems problems;
  for (const auto& [key, contest] : contests_)
    for (const auto& one : rivals_for(key)) {
      if (one == contest.winner) continue;
      if (problems.size() == kMostTold) {
        problems.push_back({.severity = api::Severity::error,
                            .object = "Services",
                            .message = "more of them claim what others have: `ipvsctl service "
                                       "NAMESPACE/NAME` tells it of one"});
        return problems;
      }
      problems.push_back(lost(contest, one));
    }
  return problems;
}

}  // namespace ipvsproxier::plan
