#include "test/support/api_server/objects.h"

#include <fmt/format.h>

namespace ipvsproxier::test {
namespace {

std::string family_of(const std::string& address) {
  return address.find(':') == std::string::npos ? "IPv4" : "IPv6";
}

}  // namespace

std::string make_service(const std::string& name_space, const std::string& name,
                         const std::string& cluster_ip, int port, const std::string& protocol) {
  return fmt::format(
      R"({{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{1}","namespace":"{0}"}},)"
      R"("spec":{{"ports":[{{"name":"http","protocol":"{5}","port":{3},"targetPort":{3}}}],)"
      R"("clusterIP":"{2}","clusterIPs":["{2}"],"type":"ClusterIP","sessionAffinity":"None",)"
      R"("ipFamilies":["{4}"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"}}}})",
      name_space, name, cluster_ip, port, family_of(cluster_ip), protocol);
}

std::string make_slice(const std::string& name_space, const std::string& service,
                       const std::vector<std::string>& addresses, int port,
                       const std::string& protocol) {
  std::string endpoints;
  for (const auto& address : addresses)
    endpoints += fmt::format(R"({}{{"addresses":["{}"],"conditions":{{"ready":true}}}})",
                             endpoints.empty() ? "" : ",", address);
  return fmt::format(
      R"({{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{)"
      R"("name":"{1}-0","namespace":"{0}","labels":{{"kubernetes.io/service-name":"{1}"}}}},)"
      R"("addressType":"{4}","endpoints":[{2}],)"
      R"("ports":[{{"name":"http","protocol":"{5}","port":{3}}}]}})",
      name_space, service, endpoints, port,
      addresses.empty() ? "IPv4" : family_of(addresses.front()), protocol);
}

std::string make_node(const std::string& name, const std::string& address,
                      const std::string& zone) {
  return fmt::format(
      R"({{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{0}","labels":{{)"
      R"("kubernetes.io/hostname":"{0}"{2}}}}},"spec":{{}},"status":{{"addresses":[)"
      R"({{"type":"InternalIP","address":"{1}"}},{{"type":"Hostname","address":"{0}"}}]}}}})",
      name, address,
      zone.empty() ? "" : fmt::format(R"(,"topology.kubernetes.io/zone":"{}")", zone));
}

std::string inflate(const std::string& object, std::size_t bytes) {
  const std::string place = R"("metadata":{)";
  const auto at = object.find(place) + place.size();
  const std::string filler(bytes > object.size() ? bytes - object.size() : 0, 'x');
  return object.substr(0, at) + R"("annotations":{"filler":")" + filler + R"("},)" +
         object.substr(at);
}

std::vector<std::string> make_services(std::size_t count) {
  std::vector<std::string> services;
  services.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    services.push_back(
        make_service("bulk", fmt::format("s-{:06}", i),
                     fmt::format("10.{}.{}.{}", 64 + i / 62500, i / 250 % 250, i % 250 + 1)));
  return services;
}

}  // namespace ipvsproxier::test
