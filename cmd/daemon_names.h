#pragma once

// Names of the cluster, asked of the daemon. Blocks. One thread.

#include <optional>
#include <string>

#include "cmd/control_client.h"
#include "netlink/result.h"
#include "proxier/inspect/cluster_names.h"
#include "proxier/inspect/service_query.h"

namespace ipvsproxier::cmd {

// Of the Services that the query asks for. The error is the client's.
netlink::Result<inspect::ClusterNames> names_of_daemon(ControlClient& daemon,
                                                       const inspect::ServiceQuery& query = {});

// The same for a command that can do without: where there are none, one line on standard error says
// why, and nullopt is answered.
std::optional<inspect::ClusterNames> names_if_known(const std::string& socket);

// What a view goes by: the names of the Services that the query asks for; nullopt where none are
// `wanted`, or as in names_if_known(). A view of some Services is nothing without names: there the
// error is the client's.
netlink::Result<std::optional<inspect::ClusterNames>> names_for_view(
    bool wanted, const std::string& socket, const inspect::ServiceQuery& services);

}  // namespace ipvsproxier::cmd
