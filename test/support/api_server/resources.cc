#include "test/support/api_server/resources.h"

#include <algorithm>

namespace ipvsproxier::test {
namespace {

// The empty value of each kind as the server's Go types print it.
constexpr std::array<ResourceFacts, 3> kFacts{{
    {Resource::services, "Service", "v1", "/api/v1/services", "services", true,
     R"("spec":{},"status":{"loadBalancer":{}})"},
    {Resource::endpoint_slices, "EndpointSlice", "discovery.k8s.io/v1",
     "/apis/discovery.k8s.io/v1/endpointslices", "endpointslices", true,
     R"("addressType":"","endpoints":null,"ports":null)"},
    {Resource::nodes, "Node", "v1", "/api/v1/nodes", "nodes", false,
     R"("spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{)"
     R"("machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"",)"
     R"("containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"",)"
     R"("operatingSystem":"","architecture":""}})"},
}};

}  // namespace

const ResourceFacts& facts_of(Resource resource) {
  return kFacts[static_cast<std::size_t>(resource)];
}

std::optional<Resource> resource_of_kind(std::string_view kind) {
  const auto* found = std::find_if(kFacts.begin(), kFacts.end(),
                                   [&](const ResourceFacts& facts) { return facts.kind == kind; });
  if (found == kFacts.end()) return std::nullopt;
  return found->resource;
}

}  // namespace ipvsproxier::test
