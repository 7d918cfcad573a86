#pragma once

// The privileges of this process (capabilities(7)).

#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/kube_proxy_config.h"
#include "netlink/result.h"

namespace ipvsproxier::cmd {

// What following a cluster takes: CAP_NET_ADMIN and CAP_NET_RAW for IPVS, ipset, iptables, links,
// conntrack and the sysctls of the network, CAP_NET_BIND_SERVICE for health servers of Services on
// low ports. Loading modules (CAP_SYS_MODULE), the OOM score and a higher hard limit
// (CAP_SYS_RESOURCE) come before this.
//
// Gives up all others of the calling thread, for good, and with them whatever the threads and
// programs that it starts could have had; from then on no program gains privileges by being started
// (no_new_privs). To be called before other threads run. Answers the names of what is kept
// ("net_admin"): of those above, the ones that the process was started with.
netlink::Result<std::vector<std::string>> drop_privileges();

// Gives the process its OOM score, then drops privileges. What cannot be done is told, and is no
// reason to end.
void confine_process(const KubeProxyConfig& config, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
