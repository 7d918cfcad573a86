#pragma once

// What one Service gets at most.

#include <cstddef>

namespace ipvsproxier::model {

// In a family, of each of these: virtual services for its external IPs, or for those of its load
// balancer; elements for its source ranges; endpoints, counted once a port; real servers of its
// virtual services but those of node ports. Each is the product of two or three lists of one or two
// objects, and nothing else bounds it.
inline constexpr std::size_t kMostOfOneService = 262'144;

}  // namespace ipvsproxier::model
