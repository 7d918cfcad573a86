#pragma once

// Reads, filters and prints the virtual server table and the connections. One thread.

#include <functional>
#include <string_view>

#include "cmd/ipvsctl/listing/list_filter.h"
#include "cmd/ipvsctl/listing/table_form.h"
#include "netlink/ipvs/ipvs_connections.h"
#include "netlink/ipvs/ipvs_reader.h"

namespace ipvsproxier::ctl {

// Receives the text in parts of some ten kilobytes; its failure ends the listing.
using TextSink = std::function<netlink::Status(std::string_view)>;

// `sorted`: in ipvsadm's order, which holds all services in memory, and the servers of one.
// Otherwise in the kernel's order, in memory that does not grow with the table. Returns the error
// of the reader or the sink.
netlink::Status list_table(netlink::IpvsReader& reader, const ListFilter& filter, bool sorted,
                           TableForm& form, const TextSink& sink);

// The output of `ipvsadm -Lc`, or with `persistence` of `ipvsadm -Lc --persistent-conn`.
netlink::Status list_connections(netlink::ConnectionSource& source, const ListFilter& filter,
                                 bool persistence, AddressNames* names, const TextSink& sink);

// The output of `ipvsadm -L --timeout` and of `ipvsadm -L --daemon`.
std::string timeout_text(const netlink::IpvsTimeouts& timeouts);
std::string daemon_text(const std::vector<netlink::SyncDaemon>& daemons);

}  // namespace ipvsproxier::ctl
