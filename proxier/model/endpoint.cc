#include "proxier/model/endpoint.h"

namespace ipvsproxier::model {

std::map<api::ServicePortName, std::vector<Endpoint>> endpoints_of(
    const api::NamespacedName& service, const SlicesByName& slices, netlink::Family family,
    std::string_view node_name) {
  std::map<api::ServicePortName, std::map<netlink::RealServerKey, Endpoint>> found;
  for (const auto& [slice_name, slice] : slices) {
    if (slice.family != family) continue;
    for (const auto& port : slice.ports) {
      auto& endpoints = found[{service, port.name, port.protocol}];
      for (const auto& source : slice.endpoints) {
        const netlink::RealServerKey key{source.address, port.port};
        const Endpoint endpoint{key, &source, source.node_name == node_name};
        const auto [it, inserted] = endpoints.try_emplace(key, endpoint);
        if (!inserted && !source.terminating) it->second = endpoint;
      }
    }
  }
  std::map<api::ServicePortName, std::vector<Endpoint>> result;
  for (const auto& [name, endpoints] : found) {
    if (endpoints.empty()) continue;
    auto& list = result[name];
    list.reserve(endpoints.size());
    for (const auto& [key, endpoint] : endpoints) list.push_back(endpoint);
  }
  return result;
}

}  // namespace ipvsproxier::model
