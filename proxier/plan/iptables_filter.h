#pragma once

// Renders the traffic of a Service as elements of the IP sets, which the fixed rules consult, and
// as entries with rules of their own (ipset/rules/rule_catalog.h). The sets and their meaning are
// kube-proxy's, except our own (kOwnSetIds of ipset/sets/set_catalog.h). Pure; any thread.

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
