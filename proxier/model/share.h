#pragma once

// The limit for the entries of one Service.

#include <cstddef>

namespace ipvsproxier::model {

// Limit in one family for each of: virtual services for external IPs; virtual services for
// load-balancer IPs; set elements for source ranges; endpoints, counted once for each port; real
// servers of virtual services other than node ports. Each of these numbers is a product of two or
// three lists in one or two objects, and has no other limit.
inline constexpr std::size_t kMostOfOneService = 262'144;

}  // namespace ipvsproxier::model
