#include "proxier/inspect/name_page.h"

#include <fmt/format.h>

#include "proxier/inspect/json_text.h"

namespace ipvsproxier::inspect {

namespace {

void append_comma(std::string& text) {
  if (text.back() != '[') text += ',';
}

void append_virtual(std::string& text, const plan::Claim& claim, const api::Service& service) {
  append_comma(text);
  fmt::format_to(std::back_inserter(text), R"(["{}",{},"{}",)", claim.key.address.to_string(),
                 claim.key.port, to_string(claim.key.protocol));
  append_json_text(text, service.ports.at(claim.port).name);
  fmt::format_to(std::back_inserter(text), R"(,"{}"])", plan::to_string(claim.facet));
}

void append_endpoint(std::string& text, const api::EndpointView& endpoint) {
  append_comma(text);
  text.append("[\"").append(endpoint.address.to_string()).append(1, '"');
  for (const auto name : {endpoint.target_name, endpoint.node_name, endpoint.zone}) {
    text += ',';
    append_json_text(text, name);
  }
  for (const bool is : {endpoint.ready, endpoint.serving, endpoint.terminating})
    text += is ? ",true" : ",false";
  text += ']';
}

void append_head(std::string& text, const api::Service& service) {
  append_comma(text);
  text += R"({"namespace":)";
  append_json_text(text, service.name.ns);
  text += R"(,"name":)";
  append_json_text(text, service.name.name);
  if (service.health_check_node_port != 0)
    fmt::format_to(std::back_inserter(text), R"(,"healthCheckNodePort":{})",
                   service.health_check_node_port);
  text += R"(,"virtual":[)";
}

void append_slice(std::string& text, const api::EndpointSlice& slice) {
  append_comma(text);
  text += R"({"ports":[)";
  for (const auto& port : slice.ports) {
    append_comma(text);
    text += std::to_string(port.port);
  }
  text += R"(],"endpoints":[)";
  for (const auto& endpoint : slice.endpoints) append_endpoint(text, endpoint);
  text += "]}";
}

}  // namespace

std::string name_page(const model::ClusterState& cluster, const plan::Planner& planner,
                      const ServiceQuery& query, std::size_t bytes) {
  std::string text = R"({"services":[)";
  const auto append = [&](const api::NamespacedName& name, const api::Service& service,
                          const std::string& after) -> std::optional<std::string> {
    const auto claims = planner.claims_held_by(name);
    if (claims.empty()) return std::nullopt;
    append_head(text, service);
    if (after.empty())
      for (const auto& claim : claims) append_virtual(text, claim, service);
    text += R"(],"slices":[)";
    std::optional<std::string> full;
    if (const auto slices = cluster.slices.find(name); slices != cluster.slices.end())
      full = append_slices(slices->second, after, [&](const api::EndpointSlice& slice) {
        append_slice(text, slice);
        return text.size() <= bytes;
      });
    text += "]}";
    if (!full && text.size() > bytes) full = "";
    return full;
  };
  const auto next = append_page(cluster.services, query, append);
  text += R"(],"continue":)";
  append_json_text(text, next);
  return text + "}";
}

}  // namespace ipvsproxier::inspect
