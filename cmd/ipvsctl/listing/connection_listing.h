#pragma once

// IPVS connections as rows, with the cluster's names. One thread.

#include <cstdint>
#include <optional>

#include "cmd/ipvsctl/listing/list_filter.h"
#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/listing/set_listing.h"
#include "cmd/ipvsctl/names/cluster_names.h"
#include "netlink/ipvs/ipvs_connections.h"

namespace ipvsproxier::ctl {

enum class ConnectionSort : std::uint8_t { expires, state, client, service, backend };

struct ConnectionStyle {
  ListFilter filter;
  std::optional<ConnectionSort> sort;  // nullopt: the kernel's order, in memory that does not grow
  SetFormat format = SetFormat::text;
};

// Returns the error of the source or the sink.
netlink::Status tell_connections(netlink::ConnectionSource& source, const ConnectionStyle& style,
                                 const ClusterNames& names, const TextSink& sink);

}  // namespace ipvsproxier::ctl
