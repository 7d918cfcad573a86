#pragma once

// How often this program has asked for memory with new, in all threads. C libraries are not
// counted.

#include <cstdint>

namespace ipvsproxier::bench {

std::uint64_t allocations();

}  // namespace ipvsproxier::bench
