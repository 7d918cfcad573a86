#pragma once

// What the daemon asks of the system for its own process: descriptors (RLIMIT_NOFILE), its rank for
// the OOM killer (oom_score_adj of proc_pid(5)), and fewer privileges (capabilities(7)).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "netlink/result.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::cmd {

// The highest limit to request: child processes inherit it, and some close every possible
// descriptor one by one.
inline constexpr std::uint64_t kMostDescriptors = std::uint64_t{1} << 20U;

// Raises the soft limit to the hard limit, at most kMostDescriptors. The health server of each
// Service needs a descriptor, and many systems start processes with 1024. Never lowers the limit.
netlink::Status raise_descriptor_limit();

// `value` from -1000 (never killed) to 1000 (killed first). A value below that at the process's
// start needs CAP_SYS_RESOURCE: otherwise `denied`, and the value stays. Writes only a changed
// value.
netlink::Status set_oom_score_adj(std::int32_t value,
                                  const std::filesystem::path& process = "/proc/self");

// The privileges for following a cluster: CAP_NET_ADMIN and CAP_NET_RAW for IPVS, ipset, iptables,
// links, conntrack and network sysctls; CAP_NET_BIND_SERVICE for health servers of Services on low
// ports. Loading modules (CAP_SYS_MODULE), the OOM score and a higher hard limit (CAP_SYS_RESOURCE)
// must happen before.
//
// Permanently drops all other privileges of the calling thread, also for the threads and programs
// that it starts; no program gains privileges by being started any more (no_new_privs). Call it
// before other threads run. Returns the names of the kept privileges ("net_admin"): those above
// that the process had at its start.
netlink::Result<std::vector<std::string>> drop_privileges();

// Sets the OOM score of the process, then drops privileges. Failures are logged and do not end the
// process.
void confine_process(const config::KubeProxyConfig& config, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
