#pragma once

// The limit of open descriptors of this process (RLIMIT_NOFILE).

#include <cstdint>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

// The highest limit to request: child processes inherit it, and some close every possible
// descriptor one by one.
inline constexpr std::uint64_t kMostDescriptors = std::uint64_t{1} << 20U;

// Raises the soft limit to the hard limit, at most kMostDescriptors. The health server of each
// Service needs a descriptor, and many systems start processes with 1024. Never lowers the limit.
netlink::Status raise_descriptor_limit();

}  // namespace ipvsproxier::cmd
