#include "proxier/api/object_json.h"

#include <ctime>

#include <array>

#include <nlohmann/json.hpp>

#include "netlink/ip_address.h"
#include "proxier/api/decode.h"
#include "proxier/api/json_text.h"

namespace ipvsproxier::api {
namespace {

using Json = nlohmann::json;

const char* wire_name(ServiceType type) {
  constexpr std::array kNames{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::string wire_time(std::int64_t since_1970) {
  const auto time = static_cast<std::time_t>(since_1970);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

template <typename Values>
Json texts_of(const Values& values) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(value.to_string());
  return list;
}

Json metadata(const NamespacedName& name, const Json& labels) {
  return {{"name", name.name}, {"namespace", name.ns}, {"labels", labels}};
}

Json ports_of(const Service& service) {
  Json ports = Json::array();
  for (const auto& port : service.ports) {
    ports.push_back(
        {{"name", port.name}, {"protocol", to_string(port.protocol)}, {"port", port.port}});
    if (port.node_port != 0) ports.back()["nodePort"] = port.node_port;
  }
  return ports;
}

void add_addresses(const Service& service, Json& object) {
  auto& spec = object["spec"];
  if (service.headless) {
    spec["clusterIP"] = "None";
    spec["clusterIPs"] = {"None"};
  } else if (!service.cluster_ips.empty()) {
    spec["clusterIP"] = service.cluster_ips.front().to_string();
    spec["clusterIPs"] = texts_of(service.cluster_ips);
  }
  if (!service.external_ips.empty()) spec["externalIPs"] = texts_of(service.external_ips);
  if (!service.source_ranges.empty())
    spec["loadBalancerSourceRanges"] = texts_of(service.source_ranges);
  for (const auto& address : service.load_balancer_ips)
    object["status"]["loadBalancer"]["ingress"].push_back({{"ip", address.to_string()}});
}

Json json_of(const Service& service) {
  Json object{{"apiVersion", "v1"},
              {"kind", "Service"},
              {"metadata", metadata(service.name, Json::object())}};
  if (service.creation_time)
    object["metadata"]["creationTimestamp"] = wire_time(*service.creation_time);
  auto& spec = object["spec"];
  spec["type"] = wire_name(service.type);
  for (const auto family : service.ip_families) spec["ipFamilies"].push_back(to_string(family));
  spec["ports"] = ports_of(service);
  spec["externalTrafficPolicy"] = service.external_policy_local ? "Local" : "Cluster";
  spec["internalTrafficPolicy"] = service.internal_policy_local ? "Local" : "Cluster";
  if (service.health_check_node_port != 0)
    spec["healthCheckNodePort"] = service.health_check_node_port;
  spec["sessionAffinity"] = service.affinity_seconds ? "ClientIP" : "None";
  if (service.affinity_seconds)
    spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"] = *service.affinity_seconds;
  add_addresses(service, object);
  return object;
}

Json json_of(const EndpointView& endpoint) {
  Json object{{"addresses", {endpoint.address.to_string()}},
              {"conditions",
               {{"ready", endpoint.ready},
                {"serving", endpoint.serving},
                {"terminating", endpoint.terminating}}}};
  if (!endpoint.node_name.empty()) object["nodeName"] = endpoint.node_name;
  if (!endpoint.zone.empty()) object["zone"] = endpoint.zone;
  if (!endpoint.target_name.empty())
    object["targetRef"] = {{"kind", "Pod"}, {"name", endpoint.target_name}};
  for (const auto& zone : endpoint.zone_hints)
    object["hints"]["forZones"].push_back({{"name", zone}});
  for (const auto& node : endpoint.node_hints)
    object["hints"]["forNodes"].push_back({{"name", node}});
  return object;
}

Json json_of(const EndpointSlice& slice) {
  Json labels = Json::object();
  if (!slice.service.empty()) labels[std::string(kServiceNameLabel)] = slice.service;
  Json object{{"apiVersion", "discovery.k8s.io/v1"},
              {"kind", "EndpointSlice"},
              {"metadata", metadata(slice.name, labels)},
              {"addressType", to_string(slice.family)},
              {"ports", Json::array()},
              {"endpoints", Json::array()}};
  for (const auto& port : slice.ports)
    object["ports"].push_back(
        {{"name", port.name}, {"protocol", to_string(port.protocol)}, {"port", port.port}});
  for (const auto& endpoint : slice.endpoints) object["endpoints"].push_back(json_of(endpoint));
  return object;
}

Json json_of(const Node& node) {
  Json object{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node.name}}}};
  if (!node.zone.empty()) object["metadata"]["labels"]["topology.kubernetes.io/zone"] = node.zone;
  if (node.to_be_deleted) object["metadata"]["deletionTimestamp"] = wire_time(1);
  object["spec"] = Json::object();
  if (!node.pod_cidrs.empty()) object["spec"]["podCIDRs"] = texts_of(node.pod_cidrs);
  auto& addresses = object["status"]["addresses"] = Json::array();
  for (const auto& address : node.internal_ips)
    addresses.push_back({{"type", "InternalIP"}, {"address", address.to_string()}});
  for (const auto& address : node.external_ips)
    addresses.push_back({{"type", "ExternalIP"}, {"address", address.to_string()}});
  return object;
}

}  // namespace

std::string to_json(const Object& object) {
  return std::visit([](const auto& typed) { return to_json_text(json_of(typed)); }, object);
}

}  // namespace ipvsproxier::api
