#pragma once

// The connections of IPVS as rows, with the names of the cluster. One thread.

#include <cstdint>
#include <optional>

#include "netlink/ipvs_connections.h"
#include "proxier/inspect/cluster_names.h"
#include "proxier/inspect/list_filter.h"
#include "proxier/inspect/listing.h"
#include "proxier/inspect/set_listing.h"

namespace ipvsproxier::inspect {

enum class ConnectionSort : std::uint8_t { expires, state, client, service, backend };

struct ConnectionStyle {
  ListFilter filter;
  std::optional<ConnectionSort> sort;  // nullopt: the kernel's order, in memory that does not grow
  SetFormat format = SetFormat::text;
};

// The error is the source's or the sink's.
netlink::Status tell_connections(netlink::ConnectionSource& source, const ConnectionStyle& style,
                                 const ClusterNames& names, const TextSink& sink);

}  // namespace ipvsproxier::inspect
