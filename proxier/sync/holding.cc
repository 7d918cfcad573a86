#include "proxier/sync/holding.h"

#include <algorithm>
#include <utility>

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

}  // namespace

void Holding::begin(const model::ClusterState& cluster) {
  for (const auto& [key, why] : cluster.unreadable)
    if (!cluster.knows(key)) unread_.insert(key);
}

plan::Doubt Holding::doubt() const {
  auto doubt = lists_;
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

// What is left with fewer endpoints than before is no sign: others may have taken their place.
void Holding::judge_lists(const Services& services, const plan::DesiredState& desired) {
  judged_ = true;
  std::size_t ours = 0;
  std::size_t gone = 0;
  std::size_t serving = 0;
  std::size_t emptied = 0;
  for (const auto& [key, actual] : services) {
    if (!plan::is_ours(desired, key)) continue;
    ++ours;
    const auto planned = desired.services.find(key);
    if (planned == desired.services.end()) {
      ++gone;
    } else if (serves(actual)) {
      ++serving;
      if (planned->second.servers.empty()) ++emptied;
    }
  }
  lists_.services = api::is_mass_removal(gone, ours);
  lists_.slices = api::is_mass_removal(emptied, serving);
  if (lists_.empty()) return;
  logger_.warn(
      "the first lists ask for {} of the {} virtual services that the kernel has, and leave {} of "
      "them without a real server: what they lack stays until lists one ipvs.syncPeriod later lack "
      "it, too (--mass-removal-brake)",
      ours - gone, ours, emptied);
  doubt_first_lists_();
}

// Real servers of some may become known later than their virtual service.
void Holding::note_services(const Services& services, const plan::Doubt& doubt,
                            plan::Planner& planner) {
  auto& leftovers = planner.leftovers();
  if (!noted_services_) {
    noted_services_ = true;
    add_leftover_services(planner.desired(), services, doubt, leftovers);
    for (const auto& [key, service] : services) unlisted_.insert(key);
  }
  if (unlisted_.empty()) return;
  const auto owner_of = [&planner](const auto& key) { return planner.owner_of(key); };
  std::erase_if(unlisted_, [&](const auto& key) {
    const auto it = services.find(key);
    if (it != services.end() && !it->second.servers) return false;
    if (it != services.end() && doubt.about_slices())
      add_leftover_servers(planner.desired(), key, *it->second.servers, doubt, owner_of, leftovers);
    return true;
  });
  if (!unlisted_.empty() || unread_.empty()) return;
  logger_.warn(
      "objects that cannot be read: {}; {} virtual services and {} real servers that no other asks "
      "for stay as they are until then, with their addresses and elements",
      unread_.size(), leftovers.services.size(), leftovers.servers.size());
}

void Holding::note(const plan::ActualState& kernel, plan::Planner& planner) {
  if (!judged_ && doubt_first_lists_ && kernel.services)
    judge_lists(*kernel.services, planner.desired());
  const auto doubt = this->doubt();
  if (doubt.empty()) return;
  if (kernel.services) note_services(*kernel.services, doubt, planner);
  if (kernel.addresses && !std::exchange(noted_addresses_, true))
    add_leftover_addresses(planner.desired(), *kernel.addresses, doubt, planner.leftovers());
  for (const auto& [set, elements] : kernel.sets)
    if (noted_sets_.insert(set).second && elements)
      add_leftover_elements(planner.desired(), set, *elements, doubt, planner.leftovers());
}

bool Holding::take(const model::Changes& changes, plan::Planner& planner) {
  std::size_t told = 0;
  if (changes.listed_again && !std::exchange(lists_, {}).empty()) {
    logger_.warn("the first lists were repeated: what these lack is removed");
    ++told;
  }
  for (const auto& [key, why] : changes.unreadable)
    if (!why) told += unread_.erase(key);
  if (told == 0) return false;
  narrow(doubt(), planner.leftovers());
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
