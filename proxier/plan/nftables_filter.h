#pragma once

// Renders the traffic of a Service as elements of the sets and maps of the table "kube-ipvs" of
// nf_tables, which its fixed rules consult (ipset/rules/nft_catalog.h). Pure; any thread.

#include "proxier/plan/set_elements.h"
#include "proxier/plan/traffic.h"

namespace ipvsproxier::plan {

// The elements that exist because of one Service.
SetElements nftables_filter(const ServiceTraffic& traffic);

}  // namespace ipvsproxier::plan
