#pragma once

// Typed objects -> JSON as a client of the API would send it. What decoding makes of it is the
// object again, but for `origin`, and the cluster IPs of a headless Service, which has none.

#include <string>

#include "proxier/api/objects.h"

namespace ipvsproxier::test {

std::string to_json(const api::Object& object);

// As an API server would take it: a Service with an address has a port.
api::Service admissible(api::Service service);

}  // namespace ipvsproxier::test
