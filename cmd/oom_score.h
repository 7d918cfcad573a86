#pragma once

// This process's rank for the kernel's OOM killer (oom_score_adj of proc_pid(5)).

#include <cstdint>
#include <filesystem>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

// `value` from -1000 (never killed) to 1000 (killed first). A value below that at the process's
// start needs CAP_SYS_RESOURCE: otherwise `denied`, and the value stays. Writes only a changed
// value.
netlink::Status set_oom_score_adj(std::int32_t value,
                                  const std::filesystem::path& process = "/proc/self");

}  // namespace ipvsproxier::cmd
