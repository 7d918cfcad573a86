#pragma once

// What the annotations of a Service ask for, as far as this node grants it. Pure; any thread.

#include <cstddef>
#include <string_view>

#include "proxier/api/objects.h"
#include "proxier/model/service_settings.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/service_plan.h"

namespace ipvsproxier::plan {

// Kernel memory for the tables of schedulers that annotations ask for; those of the node's
// scheduler are the operator's. The kernel makes one for each virtual service: mh 4,093 pointers
// (IP_VS_MH_TAB_INDEX, ip_vs_mh.c), lblc and lblcr 1,024 buckets and some more (ip_vs_lblc.c; 6.1),
// rounded up to powers of two.
inline constexpr std::size_t kTablesOfOneService = std::size_t{32} << 20U;  // bytes
inline constexpr std::size_t kTablesOfAll = std::size_t{256} << 20U;

// Bytes that the Service asks for to that end, in both families; 0 if it asks for more than one
// gets.
std::size_t table_bytes_of(const api::Service& service, const model::ParsedSettings& asked,
                           const FamilyNode& node, const PlannerOptions& options);

// Without what is not granted, for which there is a problem.
model::ParsedSettings granted_settings(const api::Service& service,
                                       const model::ParsedSettings& asked, const FamilyNode& node,
                                       const PlannerOptions& options);

// The Service's, else the node's.
std::string_view scheduler_of(const model::ServiceSettings& settings,
                              const PlannerOptions& options);
model::Thresholds thresholds_of(const model::ServiceSettings& settings,
                                const PlannerOptions& options);

}  // namespace ipvsproxier::plan
