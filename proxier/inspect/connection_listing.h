#pragma once

// IPVS connections as rows, with the cluster's names. One thread.

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

// Returns the error of the source or the sink.
netlink::Status tell_connections(netlink::ConnectionSource& source, const ConnectionStyle& style,
                                 const ClusterNames& names, const TextSink& sink);

}  // namespace ipvsproxier::inspect
