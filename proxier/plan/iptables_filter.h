#pragma once

// Renders the traffic of a Service as elements of the 17 IP sets, which the fixed rules consult
// (ipset/rules/rule_catalog.h). Sets and their meaning are kube-proxy's. Pure; any thread.

#include "ipset/rules/rule_catalog.h"
#include "proxier/plan/set_elements.h"
#include "proxier/plan/traffic.h"

namespace ipvsproxier::plan {

// The entries of the packet filter that exist because of one Service.
struct FilterEntries {
  SetElements elements;
  SortedVector<ipset::OutFilterEntry> out_filter;

  bool empty() const { return elements.empty() && out_filter.empty(); }
};

FilterEntries iptables_filter(const ServiceTraffic& traffic);

}  // namespace ipvsproxier::plan
