#pragma once

// The privileges of this process (capabilities(7)).

#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/kube_proxy_config.h"
#include "netlink/result.h"

namespace ipvsproxier::cmd {

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
void confine_process(const KubeProxyConfig& config, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
