#pragma once

// The page of `ipvsctl service` about a Service, or about an address that only the kernel knows.
// Pure; any thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ipvsproxier::ctl {

// `document` is service_document() with "draining", "refused" and "lastChange" (control_service.h),
// or only an "address", together with values read from the kernel:
//
//   {"virtualServices": as in json_form(); an absent one has "inKernel": false,
//    "elements": [{"set","element","inKernel"},...],
//    "rules": [{"set","family","table","chain","rule"},...],
//    "unknown": [values that could not be read, ...]}
//
// Absent members are not shown.
std::string service_page(const nlohmann::json& document);

}  // namespace ipvsproxier::ctl
