#pragma once

// Typed objects -> JSON as a client of the API would send it. What decoding makes of it is the
// object again, but for `origin`, and the cluster IPs of a headless Service, which has none. Pure;
// any thread.

#include <string>

#include "proxier/api/objects.h"

namespace ipvsproxier::api {

std::string to_json(const Object& object);

}  // namespace ipvsproxier::api
