#pragma once

// Where the addresses of virtual services are bound, and what is bound for nothing. Values; pure,
// any thread.

#include <set>
#include <span>
#include <string>
#include <vector>

#include "netlink/ipvs_types.h"
#include "netlink/link_types.h"
#include "proxier/inspect/cluster_names.h"
#include "proxier/inspect/set_listing.h"

namespace ipvsproxier::inspect {

struct AddressRow {
  netlink::IpAddress address;
  std::string bound_to;            // "kube-ipvs0", "table local"; "" for nothing
  std::set<std::string> services;  // "shop/web", those that are known
  std::string wrong;               // what is not as it should be; ""

  friend bool operator==(const AddressRow&, const AddressRow&) = default;
};

// Every address on a link of ours or with a local route of ours, a row for each place, and every
// address of a virtual service that is bound nowhere; ordered. Those that other links have are the
// node's own.
std::vector<AddressRow> address_rows(std::span<const netlink::InterfaceAddress> bound,
                                     std::span<const netlink::IpAddress> routes,
                                     std::span<const netlink::VirtualService> services,
                                     const ClusterNames& names);

std::string addresses_text(std::span<const AddressRow> rows, SetFormat format);

}  // namespace ipvsproxier::inspect
