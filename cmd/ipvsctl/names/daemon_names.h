#pragma once

// Reads the cluster's names from the daemon. Blocks. One thread.

#include <optional>
#include <string>

#include "cmd/ipvsctl/control_client.h"
#include "cmd/ipvsctl/names/cluster_names.h"
#include "netlink/result.h"
#include "proxier/inspect/service_query.h"

namespace ipvsproxier::ctl {

// The names of the Services that the query selects. Returns the client's error.
netlink::Result<ClusterNames> names_of_daemon(ControlClient& daemon,
                                              const inspect::ServiceQuery& query = {});

// The same for a command that works without names: on failure prints one line with the reason on
// standard error and returns nullopt.
std::optional<ClusterNames> names_if_known(const std::string& socket);

// The names for a view: those of the Services that the query selects. nullopt if `wanted` is false,
// or as in names_if_known(). A view restricted to some Services needs names: it returns the
// client's error.
netlink::Result<std::optional<ClusterNames>> names_for_view(bool wanted, const std::string& socket,
                                                            const inspect::ServiceQuery& services);

}  // namespace ipvsproxier::ctl
