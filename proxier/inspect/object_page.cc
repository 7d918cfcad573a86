#include "proxier/inspect/object_page.h"

#include <nlohmann/json.hpp>

#include "proxier/api/object_json.h"

namespace ipvsproxier::inspect {

namespace {

void append(std::string& items, const api::Object& object) {
  if (!items.empty()) items += ',';
  items += api::to_json(object);
}

void append(std::string& items, const model::SlicesByName& slices) {
  for (const auto& slice : slices) append(items, api::Object(slice));
}

void append(std::string& items, const api::Service& service) {
  append(items, api::Object(service));
}

std::string page_of(const std::string& items, const std::string& next) {
  const nlohmann::json metadata =
      next.empty() ? nlohmann::json::object() : nlohmann::json{{"continue", next}};
  return R"({"apiVersion":"v1","kind":"List","metadata":)" + metadata.dump() + R"(,"items":[)" +
         items + "]}";
}

template <typename Values>
std::string page_by_service(const std::map<api::NamespacedName, Values>& values,
                            const ServiceQuery& query, std::size_t bytes) {
  std::string items;
  const auto next =
      append_page(values, query, [&](const api::NamespacedName&, const Values& objects) {
        append(items, objects);
        return items.size() <= bytes;
      });
  return page_of(items, next);
}

}  // namespace

std::string object_page(const model::ClusterState& cluster, const ObjectQuery& query,
                        std::size_t bytes) {
  switch (query.kind) {
    case api::ObjectKind::service:
      return page_by_service(cluster.services, query.services, bytes);
    case api::ObjectKind::endpoint_slice:
      return page_by_service(cluster.slices, query.services, bytes);
    case api::ObjectKind::node:
      break;
  }
  return page_of(cluster.node ? api::to_json(*cluster.node) : "", "");
}

}  // namespace ipvsproxier::inspect
