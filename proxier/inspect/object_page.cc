#include "proxier/inspect/object_page.h"

#include "proxier/api/document_writer.h"
#include "proxier/api/object_json.h"

namespace ipvsproxier::inspect {

namespace {

void append(std::string& items, const api::Object& object) {
  if (!items.empty()) items += ',';
  items += api::to_json(object);
}

std::string page_of(const std::string& items, const std::string& next) {
  api::JsonWriter out;
  out.object([&] {
    out.member("apiVersion", "v1");
    out.member("kind", "List");
    out.object("metadata", [&] {
      if (!next.empty()) out.member("continue", next);
    });
    out.key("items");
    out.splice("[" + items + "]");
  });
  return out.take();
}

std::string service_page(const model::ClusterState& cluster, const ServiceQuery& query,
                         std::size_t bytes) {
  std::string items;
  const auto append_service = [&](const api::NamespacedName&, const api::Service& service,
                                  const std::string&) -> std::optional<std::string> {
    append(items, service);
    return items.size() > bytes ? std::optional<std::string>("") : std::nullopt;
  };
  const auto next = append_page(cluster.services, query, append_service);
  return page_of(items, next);
}

std::string slice_page(const model::ClusterState& cluster, const ServiceQuery& query,
                       std::size_t bytes) {
  std::string items;
  const auto append_some = [&](const api::NamespacedName&, const model::SlicesByName& slices,
                               const std::string& after) {
    return append_slices(slices, after, [&](const api::EndpointSlice& slice) {
      append(items, slice);
      return items.size() <= bytes;
    });
  };
  const auto next = append_page(cluster.slices, query, append_some);
  return page_of(items, next);
}

}  // namespace

std::string object_page(const model::ClusterState& cluster, const ObjectQuery& query,
                        std::size_t bytes) {
  switch (query.kind) {
    case api::ObjectKind::service:
      return service_page(cluster, query.services, bytes);
    case api::ObjectKind::endpoint_slice:
      return slice_page(cluster, query.services, bytes);
    case api::ObjectKind::node:
      break;
  }
  return page_of(cluster.node ? api::to_json(*cluster.node) : "", "");
}

}  // namespace ipvsproxier::inspect
