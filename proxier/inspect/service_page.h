#pragma once

// The page that `ipvsctl service` shows of a Service, or of an address of which only the kernel
// knows. Pure; any thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ipvsproxier::inspect {

// `document` is service_document() with "draining", "refused" and "lastChange" (control_service.h),
// or only an "address", and what was read here:
//
//   {"virtualServices": as json_form() has them; with "inKernel" false one that is not there,
//    "elements": [{"set","element","inKernel"},...],
//    "rules": [{"set","family","table","chain","rule"},...],
//    "unknown": [what could not be found out, ...]}
//
// What is not there is not shown.
std::string service_page(const nlohmann::json& document);

}  // namespace ipvsproxier::inspect
