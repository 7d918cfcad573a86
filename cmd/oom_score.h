#pragma once

// Whom the kernel's OOM killer takes before this process (oom_score_adj of proc_pid(5)).

#include <cstdint>
#include <filesystem>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

// From -1000 (never) to 1000 (first). Less than what the process was started with takes
// CAP_SYS_RESOURCE: `denied`, and the value stays. Nothing is written where it is already so.
netlink::Status set_oom_score_adj(std::int32_t value,
                                  const std::filesystem::path& process = "/proc/self");

}  // namespace ipvsproxier::cmd
