#include "proxier/sync/turns.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::sync {

namespace {

// The entry after `last`, or the first one.
template <typename Map>
typename Map::iterator after(Map& map, const std::string& last) {
  const auto next = map.upper_bound(last);
  return next == map.end() ? map.begin() : next;
}

// Real servers that are planned or in the kernel.
std::size_t count_servers(const netlink::VirtualServiceKey& key, const plan::DesiredState& desired,
                          const plan::ActualState& kernel) {
  const auto planned = desired.services.find(key);
  std::size_t count = planned == desired.services.end() ? 0 : planned->second.servers.size();
  if (!kernel.services) return count;
  const auto found = kernel.services->find(key);
  if (found == kernel.services->end() || !found->second.servers) return count;
  for (const auto& server : *found->second.servers)
    if (planned == desired.services.end() || !planned->second.servers.contains(server.key)) ++count;
  return count;
}

}  // namespace

void Turns::put(const Name& service, plan::Scope scope) {
  if (scope.empty()) return;
  const auto [it, is_new] = waiting_[service.ns].services.try_emplace(service.name);
  if (is_new) {
    ++count_;
    it->second = std::move(scope);
  } else {
    it->second.merge(scope);
  }
}

void Turns::clear() {
  waiting_.clear();
  count_ = 0;
}

bool Turns::contains(const Name& service) const {
  const auto found = waiting_.find(service.ns);
  return found != waiting_.end() && found->second.services.contains(service.name);
}

Turns::Turn Turns::take(const std::function<std::size_t(const plan::Scope&)>& size) {
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.services.empty(); });
  Turn turn;
  std::size_t total = 0;
  while (count_ > 0 && total < kMost) {
    auto space = after(waiting_, last_);
    while (space->second.services.empty()) space = after(waiting_, space->first);
    auto& [services, last] = space->second;
    const auto service = after(services, last);
    const auto more = size(service->second);
    if (!turn.parts.empty() && total + more > kMost) break;
    total += more;
    turn.scope.merge(service->second);
    turn.parts.push_back({{space->first, service->first}, std::move(service->second)});
    last_ = space->first;
    last = service->first;
    services.erase(service);
    --count_;
  }
  for (const auto& [space, waiting] : waiting_)
    for (const auto& [service, scope] : waiting.services)
      turn.scope.rules.insert(scope.rules.begin(), scope.rules.end());
  return turn;
}

std::size_t size_of(const plan::Scope& scope, const plan::DesiredState& desired,
                    const plan::ActualState& kernel) {
  std::size_t size = scope.addresses.size() + scope.rules.size();
  for (const auto& [set, elements] : scope.elements) size += elements.weight();
  for (const auto& key : scope.services) size += 1 + count_servers(key, desired, kernel);
  return size;
}

}  // namespace ipvsproxier::sync
