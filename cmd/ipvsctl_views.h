#pragma once

// `ipvsctl addresses` and `ipvsctl connections`. One thread.

#include <string>

#include "netlink/result.h"
#include "proxier/inspect/connection_listing.h"

namespace ipvsproxier::cmd {

struct AddressesOptions {
  inspect::SetFormat format = inspect::SetFormat::text;
  std::string socket;  // of the daemon, for names; "": none wanted
};

struct ConnectionsOptions {
  inspect::ConnectionStyle style;
  std::string socket;
};

// They read the network namespace of the calling thread. The error is the kernel's or the sink's.
netlink::Status run_addresses(const AddressesOptions& options, const inspect::TextSink& sink);
netlink::Status run_connections(const ConnectionsOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
