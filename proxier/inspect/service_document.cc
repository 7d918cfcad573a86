#include "proxier/inspect/service_document.h"

#include <nlohmann/json.hpp>

#include "proxier/api/object_json.h"
#include "proxier/plan/service_report.h"

namespace ipvsproxier::inspect {

namespace {

using Json = nlohmann::json;

Json traffic_json(const plan::TrafficReport& traffic) {
  Json endpoints = Json::array();
  for (const auto& [endpoint, use] : traffic.endpoints)
    endpoints.push_back(
        {{"address", endpoint.key.address.to_string()},
         {"port", endpoint.key.port},
         {"local", endpoint.local},
         {"gets", use == plan::EndpointUse::used || use == plan::EndpointUse::last_resort},
         {"use", plan::to_string(use)}});
  return {{"policy", traffic.local_only ? "Local" : "Cluster"},
          {"byLocal", traffic.by_local},
          {"endpoints", std::move(endpoints)}};
}

Json facet_json(const plan::FacetReport& facet) {
  return {{"address", facet.claim.key.address.to_string()},
          {"port", facet.claim.key.port},
          {"facet", plan::to_string(facet.claim.facet)},
          {"held", facet.held},
          {"holder", api::to_string(facet.holder)}};
}

Json port_json(const plan::PortReport& report) {
  const auto& port = report.port;
  Json document{{"family", to_string(port.cluster_ip.family())},
                {"name", port.name.port},
                {"protocol", to_string(port.name.protocol)},
                {"port", port.port},
                {"virtual", Json::array()},
                {"internal", traffic_json(report.internal)}};
  for (const auto& facet : report.facets) document["virtual"].push_back(facet_json(facet));
  if (report.external) document["external"] = traffic_json(*report.external);
  return document;
}

}  // namespace

Json service_document(const api::NamespacedName& name, const model::ClusterState& cluster,
                      const plan::Planner& planner) {
  const auto service = cluster.services.find(name);
  if (service == cluster.services.end()) return nullptr;
  Json document{{"service", Json::parse(api::to_json(service->second))},
                {"ports", Json::array()},
                {"elements", Json::array()}};
  for (const auto& report : planner.report_of(name, cluster))
    document["ports"].push_back(port_json(report));
  for (const auto& [set, elements] : planner.scope_of(name).elements)
    for (const auto& element : elements)
      document["elements"].push_back(
          {{"set", ipset::set_name(set.id, set.family)}, {"element", ipset::to_string(element)}});
  return document;
}

}  // namespace ipvsproxier::inspect
