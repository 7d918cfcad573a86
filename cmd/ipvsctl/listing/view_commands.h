#pragma once

// `ipvsctl addresses` and `ipvsctl connections`. One thread.

#include <string>

#include "cmd/ipvsctl/listing/connection_listing.h"
#include "netlink/result.h"
#include "proxier/inspect/service_query.h"

namespace ipvsproxier::ctl {

struct AddressesOptions {
  SetFormat format = SetFormat::text;
  bool names = true;  // show the cluster's names, asking the daemon on `socket`
  std::string socket;
};

struct ConnectionsOptions {
  ConnectionStyle style;
  bool names = true;
  std::string socket;
  // Only connections through these Services' virtual services, which only the daemon knows.
  inspect::ServiceQuery services;
};

// Both read the network namespace of the calling thread. They return the error of the kernel or the
// sink.
netlink::Status run_addresses(const AddressesOptions& options, const TextSink& sink);
netlink::Status run_connections(const ConnectionsOptions& options, const TextSink& sink);

}  // namespace ipvsproxier::ctl
