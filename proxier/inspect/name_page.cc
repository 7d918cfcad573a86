#include "proxier/inspect/name_page.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ipvsproxier::inspect {

namespace {

// There are very many of these: no tree is made of them.
void append_text(std::string& text, std::string_view value) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(value, is_plain))
    text.append(1, '"').append(value).append(1, '"');
  else
    text += nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_comma(std::string& text) {
  if (text.back() != '[') text += ',';
}

void append_virtual(std::string& text, const plan::Claim& claim, const api::Service& service) {
  append_comma(text);
  fmt::format_to(std::back_inserter(text), R"(["{}",{},"{}",)", claim.key.address.to_string(),
                 claim.key.port, to_string(claim.key.protocol));
  append_text(text, service.ports.at(claim.port).name);
  fmt::format_to(std::back_inserter(text), R"(,"{}"])", plan::to_string(claim.facet));
}

void append_endpoint(std::string& text, const api::EndpointView& endpoint) {
  append_comma(text);
  text += "[\"" + endpoint.address.to_string() + "\"";
  for (const auto name : {endpoint.target_name, endpoint.node_name, endpoint.zone}) {
    text += ',';
    append_text(text, name);
  }
  for (const bool is : {endpoint.ready, endpoint.serving, endpoint.terminating})
    text += is ? ",true" : ",false";
  text += ']';
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
  const auto append = [&](const api::NamespacedName& name, const api::Service& service) {
    const auto claims = planner.claims_held_by(name);
    if (claims.empty()) return true;
    append_comma(text);
    text += R"({"namespace":)";
    append_text(text, name.ns);
    text += R"(,"name":)";
    append_text(text, name.name);
    text += R"(,"virtual":[)";
    for (const auto& claim : claims) append_virtual(text, claim, service);
    text += R"(],"slices":[)";
    if (const auto slices = cluster.slices.find(name); slices != cluster.slices.end())
      for (const auto& slice : slices->second) append_slice(text, slice);
    text += "]}";
    return text.size() <= bytes;
  };
  const auto next = append_page(cluster.services, query, append);
  text += R"(],"continue":)";
  append_text(text, next);
  return text + "}";
}

}  // namespace ipvsproxier::inspect
