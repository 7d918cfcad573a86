#include "proxier/model/endpoint.h"

#include <algorithm>

#include "proxier/model/service_port.h"

namespace ipvsproxier::model {

namespace {

Hint hint_of(const std::vector<std::string_view>& names, std::string_view ours) {
  if (names.empty()) return Hint::none;
  return std::find(names.begin(), names.end(), ours) != names.end() ? Hint::ours : Hint::others;
}

// Whether `later`, of the same address and port, takes the place of `known`.
bool replaces(const Endpoint& later, const Endpoint& known, Duplicates duplicates) {
  if (duplicates == Duplicates::ready_wins && later.ready != known.ready) return later.ready;
  return !later.terminating;
}

void settle_duplicates(std::vector<Endpoint>& endpoints, Duplicates duplicates) {
  const auto before = [](const Endpoint& a, const Endpoint& b) { return a.key < b.key; };
  if (!std::is_sorted(endpoints.begin(), endpoints.end(), before))
    std::stable_sort(endpoints.begin(), endpoints.end(), before);
  std::size_t kept = 0;
  for (const auto& one : endpoints) {
    if (kept == 0 || endpoints[kept - 1].key != one.key)
      endpoints[kept++] = one;
    else if (replaces(one, endpoints[kept - 1], duplicates))
      endpoints[kept - 1] = one;
  }
  endpoints.resize(kept);
}

std::size_t count_endpoints(const api::EndpointSlice& slice) {
  return slice.ports.size() * slice.endpoints.size();
}

}  // namespace

std::size_t count_endpoints(const SlicesByName& slices, netlink::Family family) {
  std::size_t count = 0;
  for (const auto& slice : slices)
    if (slice.family == family) count += count_endpoints(slice);
  return count;
}

std::map<api::ServicePortName, std::vector<Endpoint>> endpoints_of(
    const api::NamespacedName& service, const SlicesByName& slices, netlink::Family family,
    std::string_view node_name, std::string_view zone, const ServiceSettings* settings,
    Duplicates duplicates) {
  std::map<api::ServicePortName, std::vector<Endpoint>> found;
  std::size_t count = 0;
  for (const auto& slice : slices) {
    if (slice.family != family || slice.endpoints.empty()) continue;
    if (count + count_endpoints(slice) > kMostOfOneService) continue;
    count += count_endpoints(slice);
    std::vector<std::vector<Endpoint>*> lists;
    for (const auto& port : slice.ports) {
      lists.push_back(&found[{service, port.name, port.protocol}]);
      // Reserve once only: reserving exactly for every slice would move all endpoints each time.
      if (lists.back()->empty()) lists.back()->reserve(slice.endpoints.size());
    }
    for (const auto& source : slice.endpoints) {
      Endpoint endpoint{.key = {source.address, 0},
                        .local = source.node_name == node_name,
                        .ready = source.ready,
                        .serving = source.serving,
                        .terminating = source.terminating,
                        .node_hint = hint_of(source.node_hints, node_name),
                        .zone_hint = hint_of(source.zone_hints, zone)};
      if (settings != nullptr)
        endpoint.weight = weight_of(*settings, slice, source, endpoint.local);
      for (std::size_t i = 0; i < lists.size(); ++i) {
        endpoint.key.port = slice.ports[i].port;
        lists[i]->push_back(endpoint);
      }
    }
  }
  for (auto& [name, endpoints] : found) settle_duplicates(endpoints, duplicates);
  return found;
}

}  // namespace ipvsproxier::model
