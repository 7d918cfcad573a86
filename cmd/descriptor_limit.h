#pragma once

// How many descriptors this process may have open (RLIMIT_NOFILE).

#include <cstdint>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

// No more than this is asked for: programs that we start inherit the limit, and some close every
// descriptor below it one by one.
inline constexpr std::uint64_t kMostDescriptors = std::uint64_t{1} << 20U;

// Raises the soft limit to the hard one or to kMostDescriptors: each health server of a Service
// needs one, and many systems start processes with 1024. Never lowers it.
netlink::Status raise_descriptor_limit();

}  // namespace ipvsproxier::cmd
