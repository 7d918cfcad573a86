#pragma once

// Options of a planner that sends clients within the cluster on
// (PlannerOptions::sends_clients_on()).

#include "proxier/plan/planner.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::test {

inline plan::PlannerOptions in_cluster_options() {
  auto options = vector_options();
  options.packet_filter = ipset::PacketFilter::nftables;
  options.differences.in_cluster_clients = true;
  options.node_port_addresses = {prefix("10.0.0.0/24")};
  return options;
}

}  // namespace ipvsproxier::test
