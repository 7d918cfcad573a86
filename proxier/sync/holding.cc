#include "proxier/sync/holding.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "proxier/api/mass_removal.h"
#include "proxier/plan/diff.h"

namespace ipvsproxier::sync {

namespace {

bool serves(const plan::ActualService& service) {
  const auto& servers = service.servers;
  return servers && std::any_of(servers->begin(), servers->end(),
                                [](const auto& server) { return server.weight != 0; });
}

plan::OwnerOf owners(const plan::Planner& planner) {
  return [&planner](const auto& key) { return planner.owner_of(key); };
}

}  // namespace

void Holding::begin(const model::ClusterState& cluster) {
  for (const auto& [key, why] : cluster.unreadable)
    if (!cluster.knows(key)) unread_.insert(key);
}

plan::Doubt Holding::doubt() const {
  plan::Doubt doubt{.services = lists_.services || unjudged_.services,
                    .slices = lists_.slices || unjudged_.slices,
                    .namespaces = {}};
  for (const auto& key : unread_) {
    if (key.kind != api::ObjectKind::endpoint_slice)
      doubt.services = true;
    else if (key.name.name.empty())
      doubt.slices = true;
    else
      doubt.namespaces.insert(key.name.ns);
  }
  return doubt;
}

void Holding::tell_doubt() {
  if (!std::exchange(told_, true)) doubt_first_lists_();
}

void Holding::judge_services(const Services& services, const plan::DesiredState& desired) {
  if (!std::exchange(unjudged_.services, false)) return;
  std::size_t ours = 0;
  std::size_t gone = 0;
  for (const auto& [key, actual] : services) {
    if (!plan::is_ours(desired, key)) continue;
    ++ours;
    if (!desired.services.contains(key)) ++gone;
  }
  lists_.services = api::is_mass_removal(gone, ours);
  if (!lists_.services) return;
  logger_.warn(
      "the first lists ask for {} of the {} virtual services that the kernel has: what they lack "
      "stays until lists one ipvs.syncPeriod later lack it, too (--mass-removal-brake)",
      ours - gone, ours);
  tell_doubt();
}

// Counts services that lose all real servers; a smaller number of servers is no sign of lost lists.
void Holding::count_servers(const plan::ActualService& actual, const plan::DesiredState& desired) {
  const auto planned = desired.services.find(actual.service.key);
  if (planned == desired.services.end() || !serves(actual)) return;
  ++serving_;
  if (planned->second.servers.empty()) ++emptied_;
}

// Judges as soon as the services whose real servers are still unknown cannot change the result.
void Holding::judge_slices() {
  if (!unjudged_.slices) return;
  const auto unknown = unlisted_.size();
  const bool possibly = api::is_mass_removal(emptied_ + unknown, serving_ + unknown);
  const bool surely = api::is_mass_removal(emptied_, serving_) &&
                      api::is_mass_removal(emptied_, serving_ + unknown);
  if (possibly != surely) return;
  unjudged_.slices = false;
  lists_.slices = surely;
  if (!lists_.slices) return;
  logger_.warn(
      "the first lists leave {} of {} virtual services without a real server that the kernel has "
      "some of: these stay until lists one ipvs.syncPeriod later lack them, too "
      "(--mass-removal-brake)",
      emptied_, serving_ + unknown);
  tell_doubt();
}

void Holding::note_services(const Services& services, plan::Planner& planner) {
  if (!std::exchange(noted_services_, true)) {
    judge_services(services, planner.desired());
    add_leftover_services(planner.desired(), services, doubt(), planner.leftovers());
    for (const auto& [key, service] : services)
      if (plan::is_ours(planner.desired(), key)) unlisted_.insert(key);
  }
  note_servers(services, planner);
}

// The real servers of a virtual service may become known later than the service.
void Holding::note_servers(const Services& services, plan::Planner& planner) {
  const bool was_listed = unlisted_.empty();
  std::vector<const plan::ActualService*> known;
  std::erase_if(unlisted_, [&](const auto& key) {
    const auto it = services.find(key);
    if (it == services.end()) return true;
    if (it->second.servers) known.push_back(&it->second);
    return it->second.servers.has_value();
  });
  for (const auto* service : known) count_servers(*service, planner.desired());
  judge_slices();
  auto& leftovers = planner.leftovers();
  if (const auto doubt = this->doubt(); doubt.about_slices())
    for (const auto* service : known)
      add_leftover_servers(planner.desired(), service->service.key, *service->servers, doubt,
                           owners(planner), leftovers);
  if (was_listed || !unlisted_.empty() || unread_.empty()) return;
  logger_.warn(
      "objects that cannot be read: {}; {} virtual services and {} real servers that no other asks "
      "for stay as they are until then, with their addresses and elements",
      unread_.size(), leftovers.services.size(), leftovers.servers.size());
}

bool Holding::note(const plan::ActualState& kernel, plan::Planner& planner) {
  const auto before = doubt();
  if (before.empty()) return false;
  if (kernel.services) note_services(*kernel.services, planner);
  const auto doubt = this->doubt();
  if (kernel.addresses && !std::exchange(noted_addresses_, true))
    add_leftover_addresses(planner.desired(), *kernel.addresses, doubt, planner.leftovers());
  for (const auto& [set, elements] : kernel.sets)
    if (noted_sets_.insert(set).second && elements)
      add_leftover_elements(planner.desired(), set, *elements, doubt, planner.leftovers());
  if (doubt == before) return false;
  narrow(doubt, owners(planner), planner.leftovers());
  return true;
}

bool Holding::take(const model::Changes& changes, plan::Planner& planner) {
  const auto before = doubt();
  if (changes.listed_again) {
    if (!lists_.empty()) logger_.warn("the first lists were repeated: what these lack is removed");
    lists_ = unjudged_ = {};
  }
  for (const auto& [key, why] : changes.unreadable)
    if (!why) unread_.erase(key);
  const auto doubt = this->doubt();
  if (doubt == before) return false;
  narrow(doubt, owners(planner), planner.leftovers());
  return true;
}

std::size_t Holding::doubted_count(const plan::DesiredState& desired) const {
  const auto& leftovers = desired.leftovers;
  return (lists_.services ? leftovers.services.size() : 0) +
         (lists_.slices ? leftovers.servers.size() : 0);
}

std::string Holding::doubted(const plan::DesiredState& desired) const {
  const auto count = doubted_count(desired);
  if (count == 0) return "";
  return fmt::format(
      "the first lists of the API server lack {} virtual and real servers that the kernel has; "
      "they "
      "stay until other lists lack them, too (--mass-removal-brake)",
      count);
}

}  // namespace ipvsproxier::sync
