#pragma once

// The clusters that benchmarks are about. Every Service has the same number of ports and endpoints;
// every 20th has node ports, every 50th a load balancer with source ranges, every fifth endpoint is
// on this node. Values; any thread.

#include <string>
#include <string_view>
#include <vector>

#include "ipset/rules/packet_filter.h"
#include "proxier/model/cluster_state.h"
#include "proxier/plan/planner.h"

namespace ipvsproxier::bench {

struct Size {
  std::string_view name;
  int services = 0;
  int ports = 1;
  int endpoints = 10;  // of each Service
};

// S0 is for trying the benchmarks.
inline constexpr Size kSizes[] = {{"S0", 100, 1, 10},
                                  {"S1", 1'000, 1, 10},
                                  {"S2", 10'000, 1, 10},
                                  {"S3", 10'000, 1, 100},
                                  {"S4", 50'000, 2, 2}};

// Throws std::invalid_argument for a name that is none.
const Size& size_of(std::string_view name);

inline constexpr const char* kNode = "n1";

api::Service service_of(const Size& size, int index);
// Its only slice.
api::EndpointSlice slice_of(const Size& size, int index);
// Its endpoints, to be changed and put back.
std::vector<api::Endpoint> endpoints_of(const api::EndpointSlice& slice);

// All Services and slices, as a source tells of them at the start.
model::Changes first_lists(const Size& size);

plan::PlannerOptions planner_options(ipset::PacketFilter filter = ipset::PacketFilter::iptables);
plan::NodeInfo node();

}  // namespace ipvsproxier::bench
