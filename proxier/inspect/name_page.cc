#include "proxier/inspect/name_page.h"

#include <optional>

#include "proxier/api/document_writer.h"

namespace ipvsproxier::inspect {

namespace {

void write_key(api::DocumentWriter& out, const netlink::VirtualServiceKey& key) {
  out.value(key.address.to_string());
  out.value(key.port);
  out.value(to_string(key.protocol));
}

void write_foreign(api::DocumentWriter& out, const std::set<netlink::VirtualServiceKey>& foreign) {
  std::size_t count = 0;
  out.key("foreign");
  out.open_list();
  for (const auto& key : foreign) {
    if (count++ == kMostForeign) break;
    out.open_list();
    write_key(out, key);
    out.close();
  }
  out.close();
}

void write_virtual(api::DocumentWriter& out, const plan::Claim& claim,
                   const api::Service& service) {
  out.open_list();
  write_key(out, claim.key);
  out.value(service.ports.at(claim.port).name);
  out.value(ipset::to_string(claim.facet));
  out.close();
}

void write_named_endpoint(api::DocumentWriter& out, const api::EndpointView& endpoint) {
  out.open_list();
  out.value(endpoint.address.to_string());
  for (const auto name : {endpoint.target_name, endpoint.node_name, endpoint.zone}) out.value(name);
  for (const bool is : {endpoint.ready, endpoint.serving, endpoint.terminating}) out.value(is);
  out.close();
}

void write_slice(api::DocumentWriter& out, const api::EndpointSlice& slice) {
  out.object([&] {
    out.list("ports", slice.ports, [&](const auto& port) { out.value(port.port); });
    out.list("endpoints", slice.endpoints,
             [&](const auto& endpoint) { write_named_endpoint(out, endpoint); });
  });
}

void write_head(api::DocumentWriter& out, const api::Service& service) {
  out.member("namespace", service.name.ns);
  out.member("name", service.name.name);
  if (service.health_check_node_port != 0)
    out.member("healthCheckNodePort", service.health_check_node_port);
}

}  // namespace

std::string name_page(const model::ClusterState& cluster, const plan::Planner& planner,
                      const ServiceQuery& query, std::size_t bytes,
                      const std::set<netlink::VirtualServiceKey>& foreign) {
  api::JsonWriter out;
  const auto write_service = [&](const api::NamespacedName& name, const api::Service& service,
                                 const std::string& after) -> std::optional<std::string> {
    const auto claims = planner.claims_held_by(name);
    if (claims.empty()) return std::nullopt;
    std::optional<std::string> full;
    out.object([&] {
      write_head(out, service);
      out.key("virtual");
      out.open_list();
      if (after.empty())
        for (const auto& claim : claims) write_virtual(out, claim, service);
      out.close();
      out.key("slices");
      out.open_list();
      if (const auto slices = cluster.slices.find(name); slices != cluster.slices.end())
        full = append_slices(slices->second, after, [&](const api::EndpointSlice& slice) {
          write_slice(out, slice);
          return out.size() <= bytes;
        });
      out.close();
    });
    if (!full && out.size() > bytes) full = "";
    return full;
  };
  out.object([&] {
    out.key("services");
    out.open_list();
    const auto next = append_page(cluster.services, query, write_service);
    out.close();
    if (next.empty() && !query.of_some() && !foreign.empty()) write_foreign(out, foreign);
    out.member("continue", next);
  });
  return out.take();
}

}  // namespace ipvsproxier::inspect
