#pragma once

// The page of `ipvsctl service` about a Service, or about an address that only the kernel knows: as
// text, JSON or YAML. Values; pure, any thread.

#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/names/cluster_names.h"
#include "netlink/ipvs/ipvs_readings.h"
#include "proxier/api/document_writer.h"
#include "proxier/inspect/service_page.h"

namespace ipvsproxier::ctl {

// A virtual service of the page.
struct PageVirtual {
  netlink::VirtualServiceKey key;
  std::optional<netlink::ServiceReading> reading;  // nullopt: the kernel lacks it
  std::vector<netlink::ServerReading> servers;
};

struct NodePage {
  inspect::ServicePage facts;
  std::optional<ClusterNames> names;                 // nullopt: the daemon is not asked
  std::optional<std::vector<PageVirtual>> virtuals;  // nullopt: they could not be read
};

std::string page_text(const NodePage& page);

// Writes the page as an object: the members of the ServicePage, then
//
//   "virtualServices": as in json_form(); of one that the kernel lacks
//                      {"address","inKernel": false,"port","protocol","service": {"facet"}}
void write_page(api::DocumentWriter& out, const NodePage& page);

}  // namespace ipvsproxier::ctl
