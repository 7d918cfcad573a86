#pragma once

// One Service as decoded by the daemon, and the decisions for it. Pure; any thread.

#include <nlohmann/json_fwd.hpp>

#include "proxier/plan/planner.h"

namespace ipvsproxier::inspect {

// nullptr (JSON's null): the Service does not exist. Otherwise
//
//   {"service": the object,
//    "ports": [{"family","name","protocol","port",
//               "virtual": [{"address","port","facet","held","holder"},...],
//               "internal": {"policy","byLocal",
//                            "endpoints": [{"address","port","local","gets","use"},...]},
//               "external": the same, where there may be such traffic},...],
//    "elements": [{"set","element"},...]}
nlohmann::json service_document(const api::NamespacedName& name, const model::ClusterState& cluster,
                                const plan::Planner& planner);

}  // namespace ipvsproxier::inspect
