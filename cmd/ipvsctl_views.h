#pragma once

// `ipvsctl addresses` and `ipvsctl connections`. One thread.

#include <string>

#include "netlink/result.h"
#include "proxier/inspect/connection_listing.h"
#include "proxier/inspect/service_query.h"

namespace ipvsproxier::cmd {

struct AddressesOptions {
  inspect::SetFormat format = inspect::SetFormat::text;
  bool names = true;  // of the cluster are shown; the daemon is asked on `socket`
  std::string socket;
};

struct ConnectionsOptions {
  inspect::ConnectionStyle style;
  bool names = true;
  std::string socket;
  // Only those through these Services' virtual services. The daemon alone knows which these are.
  inspect::ServiceQuery services;
};

// They read the network namespace of the calling thread. The error is the kernel's or the sink's.
netlink::Status run_addresses(const AddressesOptions& options, const inspect::TextSink& sink);
netlink::Status run_connections(const ConnectionsOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
