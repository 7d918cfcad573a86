#pragma once

// Fingerprint: a hash that tells whether an object equals its last reported state, without storing
// that state. Pure.
//
// All fields count, except an EndpointSlice's trigger time. Two different states of one object have
// equal fingerprints once in 2^64 changes. A resource version would also report changes of fields
// that are not read (the status of a Node every few minutes, most annotations).

#include <cstdint>

#include "proxier/api/objects.h"

namespace ipvsproxier::watch {

std::uint64_t fingerprint(const api::Object& object);

}  // namespace ipvsproxier::watch
