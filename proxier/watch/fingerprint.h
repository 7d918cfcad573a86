#pragma once

// Fingerprint: whether an object is the one that was handed over before, without keeping it. Pure.
//
// Every field counts. That two different states of one object have the same fingerprint happens
// once in 2^64 changes; a resource version would tell more than that, for it also changes with what
// we do not read (the status of a Node every few minutes, annotations).

#include <cstdint>

#include "proxier/api/objects.h"

namespace ipvsproxier::watch {

std::uint64_t fingerprint(const api::Object& object);

}  // namespace ipvsproxier::watch
