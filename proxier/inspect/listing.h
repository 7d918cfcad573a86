#pragma once

// The virtual server table and the connections, read, selected and written as text. One thread.

#include <functional>
#include <string_view>

#include "netlink/ipvs_connections.h"
#include "netlink/ipvs_reader.h"
#include "proxier/inspect/list_filter.h"
#include "proxier/inspect/table_form.h"

namespace ipvsproxier::inspect {

// Takes text as it comes, in parts of some ten kilobytes; its failure ends a listing.
using TextSink = std::function<netlink::Status(std::string_view)>;

// Sorted as ipvsadm sorts: all services are held, and the servers of one. Otherwise in the kernel's
// order and in memory that does not grow with the table. The error is the reader's or the sink's.
netlink::Status list_table(netlink::IpvsReader& reader, const ListFilter& filter, bool sorted,
                           TableForm& form, const TextSink& sink);

// What `ipvsadm -Lc` prints; with `persistence`, what `ipvsadm -Lc --persistent-conn` does.
netlink::Status list_connections(netlink::ConnectionSource& source, const ListFilter& filter,
                                 bool persistence, AddressNames* names, const TextSink& sink);

// What `ipvsadm -L --timeout` and `ipvsadm -L --daemon` print.
std::string timeout_text(const netlink::IpvsTimeouts& timeouts);
std::string daemon_text(const std::vector<netlink::SyncDaemon>& daemons);

}  // namespace ipvsproxier::inspect
