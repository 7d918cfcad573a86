#pragma once

// The places where addresses of virtual services are bound, and addresses that are bound without
// need. Values; pure, any thread.

#include <set>
#include <span>
#include <string>
#include <vector>

#include "cmd/ipvsctl/listing/set_listing.h"
#include "cmd/ipvsctl/names/cluster_names.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/links/link_types.h"

namespace ipvsproxier::ctl {

struct AddressRow {
  netlink::IpAddress address;
  std::string bound_to;            // "kube-ipvs0", "table local"; "" if not bound
  std::set<std::string> services;  // "shop/web", if known
  std::string wrong;               // a description of the fault, or ""

  friend bool operator==(const AddressRow&, const AddressRow&) = default;
};

// One row for each address on our links or with our local route, at each place, and for each
// address of a virtual service that is bound nowhere; sorted. Addresses on other links belong to
// the node.
std::vector<AddressRow> address_rows(std::span<const netlink::InterfaceAddress> bound,
                                     std::span<const netlink::IpAddress> routes,
                                     std::span<const netlink::VirtualService> services,
                                     const ClusterNames& names);

std::string addresses_text(std::span<const AddressRow> rows, SetFormat format);

}  // namespace ipvsproxier::ctl
