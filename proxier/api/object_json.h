#pragma once

// Typed objects -> JSON as an API client would send it. Decoding the JSON gives an equal object,
// except for `origin` and for the cluster IPs of a headless Service, which has none. Pure; any
// thread.

#include <string>

#include "proxier/api/document_writer.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::api {

void write_object(DocumentWriter& out, const Object& object);
// The same as JSON on one line.
std::string to_json(const Object& object);

}  // namespace ipvsproxier::api
