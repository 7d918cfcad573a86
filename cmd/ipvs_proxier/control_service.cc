#include "cmd/ipvs_proxier/control_service.h"

#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/inspect/service_document.h"
#include "proxier/serve/healthz.h"

namespace ipvsproxier::cmd {

namespace {

using Json = nlohmann::json;

Json draining_json(const sync::Inspection& inspection, const api::NamespacedName& name) {
  auto list = Json::array();
  if (!inspection.kernel.services) return list;
  for (const auto& claim : inspection.planner.claims_held_by(name)) {
    const auto service = inspection.kernel.services->find(claim.key);
    if (service == inspection.kernel.services->end() || !service->second.servers) continue;
    for (const auto& server : *service->second.servers) {
      const auto leaving = inspection.drain.leaving(claim.key, server.key, inspection.now);
      if (!leaving) continue;
      Json one{{"service", to_string(claim.key)},
               {"server", to_string(server.key)},
               {"forMilliseconds", leaving->since.count()}};
      if (leaving->left) one["leftMilliseconds"] = leaving->left->count();
      list.push_back(std::move(one));
    }
  }
  return list;
}

// The kernel's refusals of this Service's entries.
Json refused_json(const sync::Inspection& inspection, const api::NamespacedName& name) {
  auto list = Json::array();
  for (const auto& [thing, entry] : inspection.refusals.all())
    if (entry.services.contains(name)) list.push_back(to_string(entry));
  return list;
}

}  // namespace

std::string service_answer(const sync::Inspection& inspection, const api::NamespacedName& name) {
  auto document = inspect::service_document(name, inspection.cluster, inspection.planner);
  if (!document.is_object()) return "null";
  document["draining"] = draining_json(inspection, name);
  document["refused"] = refused_json(inspection, name);
  const auto change = inspection.changes.of(name);
  document["lastChange"] =
      change ? Json{{"when", serve::go_time(change->when)},
                    {"tookMilliseconds",
                     std::chrono::duration<double, std::milli>(change->took).count()}}
             : Json(nullptr);
  return api::to_json_text(document);
}

}  // namespace ipvsproxier::cmd
