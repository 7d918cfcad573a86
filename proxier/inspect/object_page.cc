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

bool is_beyond(const api::NamespacedName& name, const ObjectQuery& query) {
  if (query.service) return name != *query.service;
  return query.ns && name.ns != *query.ns;
}

// By Service, in order of their names.
template <typename Values>
std::string page_by_service(const std::map<api::NamespacedName, Values>& values,
                            const ObjectQuery& query, std::size_t bytes) {
  const auto first =
      query.service ? *query.service : api::NamespacedName{query.ns.value_or(""), ""};
  auto it = values.lower_bound(first);
  if (query.after && *query.after >= first) it = values.upper_bound(*query.after);
  std::string items;
  for (; it != values.end() && !is_beyond(it->first, query); ++it) {
    append(items, it->second);
    if (items.size() <= bytes) continue;
    const auto next = std::next(it);
    const bool last = next == values.end() || is_beyond(next->first, query);
    return page_of(items, last ? "" : api::to_string(it->first));
  }
  return page_of(items, "");
}

}  // namespace

std::string object_page(const model::ClusterState& cluster, const ObjectQuery& query,
                        std::size_t bytes) {
  switch (query.kind) {
    case api::ObjectKind::service:
      return page_by_service(cluster.services, query, bytes);
    case api::ObjectKind::endpoint_slice:
      return page_by_service(cluster.slices, query, bytes);
    case api::ObjectKind::node:
      break;
  }
  return page_of(cluster.node ? api::to_json(*cluster.node) : "", "");
}

}  // namespace ipvsproxier::inspect
