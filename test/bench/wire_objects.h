#pragma once

// Objects as the clients of an API server write them, with what controllers add beside what a proxy
// reads: owners, annotations, references of Pods. The test API server adds the rest (store.h), so
// that what it sends is as long as a real server's. Pure.

#include <string>

#include "proxier/api/objects.h"

namespace ipvsproxier::bench {

std::string wire_text(const api::Service& service);
// `revision` is an annotation's that proxies do not read.
std::string wire_text(const api::EndpointSlice& slice, int revision = 0);
// n1
std::string wire_node();

}  // namespace ipvsproxier::bench
